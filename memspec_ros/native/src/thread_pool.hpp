// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// A few threads that run a job together, in stages between barriers.
//
// A stage ends when all its units are done, not when all threads have come: on a busy robot some
// thread always waits for a core, and the others take its units. All threads run the same code;
// one that is late finds nothing to claim and no barrier closed until it has caught up.
//
// A decoder pass has hundreds of stages of some microseconds, so threads wait for each other by
// spinning; one that waits for long yields its core, and between jobs it soon sleeps, so that
// the rest of the robot (and the loader) gets the time.

#ifndef THREAD_POOL_HPP_
#define THREAD_POOL_HPP_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace memspec
{

class ThreadPool
{
public:
  // What a job is: called once on each thread, with its index.
  using Job = void (*)(void * context, int thread);

  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool & operator=(const ThreadPool &) = delete;

  int num_threads() const {return num_threads_;}

  // Sole use of the threads, and of what callers keep for it; false when another call has them.
  bool acquire() {return !busy_.exchange(true, std::memory_order_acquire);}
  void release() {busy_.store(false, std::memory_order_release);}

  // Run a job on all threads that get to it, the caller being thread 0 and having acquired them.
  // `units` is the work of the job's first stage. No thread is in the job any more afterwards.
  void run(Job job, void * context, int units);

  // Take the next unit of the thread's stage, having done those taken before; false when none are
  // left. Each thread has its own contiguous share, and takes from the ends of the others' when
  // it is through with it.
  bool claim(int thread, int * unit);

  // Wait until the units of the thread's stage are done; the next stage has `units` units.
  void barrier(int thread, int units);

  // Whether the thread's stage is the one at work; else what it computes is of no use, and what
  // it reads may be half of a later stage.
  bool is_current(int thread) const
  {
    return stage_.load(std::memory_order_acquire) == threads_[thread].stage;
  }

private:
  // Units [begin, end) of a stage in one word, see packed() in the .cpp.
  struct alignas(64) Share
  {
    std::atomic<uint64_t> range{0};
  };

  // What only its thread uses.
  struct alignas(64) Local
  {
    uint32_t stage = 0;
    int taken = 0;  // units since the last report to done_
  };

  bool take(Share & share, uint32_t stage, bool from_end, int * unit);
  void report(int thread);
  void open_stage(uint32_t stage, int units);

  void work(int thread);
  bool wait_for_job(uint32_t seen);
  bool enter(uint32_t job);

  const int num_threads_;
  std::unique_ptr<Share[]> shares_;
  std::unique_ptr<Local[]> threads_;
  std::vector<std::thread> workers_;

  Job job_ = nullptr;
  void * context_ = nullptr;

  uint32_t first_stage_ = 0;  // of the job
  alignas(64) std::atomic<uint32_t> job_number_{0};  // odd while a job may be entered
  alignas(64) std::atomic<int> inside_{0};           // workers that are in a job
  alignas(64) std::atomic<uint32_t> stage_{0};
  std::atomic<uint32_t> claimed_stage_{0};           // the last that some thread opens
  std::atomic<int> units_{0};                        // of the stage
  alignas(64) std::atomic<int> done_{0};             // of those
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> busy_{false};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace memspec

#endif  // THREAD_POOL_HPP_
