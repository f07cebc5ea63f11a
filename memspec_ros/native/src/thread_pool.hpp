// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// A few threads that run a job together, in stages between barriers.
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

  // Run a job on all threads, the caller being thread 0 and having acquired them. `units` is the
  // work of the job's first stage.
  void run(Job job, void * context, int units);

  // Take the next unit of this stage; false when none are left. Each thread has its own
  // contiguous share, and takes from the ends of the others' when it is through with it.
  bool claim(int thread, int * unit);

  // Wait until all threads are here; the next stage then has `units` units.
  void barrier(int units);

private:
  // Units [begin, end) in one word: begin in the low, end in the high half.
  struct alignas(64) Share
  {
    std::atomic<uint64_t> range{0};
  };

  bool take(Share & share, bool from_end, int * unit);

  void work(int thread);
  bool wait_for_job(uint32_t seen);
  void share_out(int units);

  const int num_threads_;
  std::unique_ptr<Share[]> shares_;
  std::vector<std::thread> workers_;

  Job job_ = nullptr;
  void * context_ = nullptr;

  alignas(64) std::atomic<uint32_t> generation_{0};  // of jobs
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> stage_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> busy_{false};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace memspec

#endif  // THREAD_POOL_HPP_
