// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0

#include "thread_pool.hpp"

#include <sched.h>

#include <chrono>

namespace memspec
{
namespace
{

constexpr int kSpins = 2000;  // some 30 microseconds
constexpr std::chrono::microseconds kAwake{200};

inline void pause()
{
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__ ("yield");
#endif
}

// One step of waiting.
inline void linger(int * spins)
{
  if (++*spins < kSpins) {
    pause();
  } else {
    sched_yield();
  }
}

// A share: begin and end in 20 bits each, and 24 bits of the stage's number.
constexpr uint64_t kMask = (1u << 20) - 1;

inline uint64_t packed(uint32_t stage, uint64_t begin, uint64_t end)
{
  return begin | end << 20 | uint64_t{stage} << 40;
}

}  // namespace

ThreadPool::ThreadPool(int num_threads)
: num_threads_(num_threads), shares_(new Share[num_threads]), threads_(new Local[num_threads])
{
  for (int thread = 1; thread < num_threads; ++thread) {
    workers_.emplace_back([this, thread] {work(thread);});
  }
}

ThreadPool::~ThreadPool()
{
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_.store(true);
  }
  wake_.notify_all();
  for (std::thread & worker : workers_) {
    worker.join();
  }
}

void ThreadPool::run(Job job, void * context, int units)
{
  job_ = job;
  context_ = context;
  first_stage_ = stage_.load(std::memory_order_relaxed) + 1;
  claimed_stage_.store(first_stage_, std::memory_order_relaxed);
  open_stage(first_stage_, units);
  job_number_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  threads_[0].stage = first_stage_;
  job(context, 0);
  barrier(0, 0);
  job_number_.fetch_add(1, std::memory_order_seq_cst);
  int spins = 0;
  while (inside_.load(std::memory_order_seq_cst) > 0) {
    linger(&spins);
  }
}

bool ThreadPool::claim(int thread, int * unit)
{
  const uint32_t stage = threads_[thread].stage;
  for (int i = 0; i < num_threads_; ++i) {
    if (take(shares_[(thread + i) % num_threads_], stage, i > 0, unit)) {
      ++threads_[thread].taken;
      return true;
    }
  }
  report(thread);
  return false;
}

bool ThreadPool::take(Share & share, uint32_t stage, bool from_end, int * unit)
{
  uint64_t range = share.range.load(std::memory_order_relaxed);
  while (true) {
    const uint64_t begin = range & kMask;
    const uint64_t end = range >> 20 & kMask;
    if (begin >= end || range >> 40 != (stage & 0xffffff)) {
      return false;
    }
    *unit = static_cast<int>(from_end ? end - 1 : begin);
    const uint64_t left = from_end ? range - (uint64_t{1} << 20) : range + 1;
    if (share.range.compare_exchange_weak(range, left, std::memory_order_relaxed)) {
      return true;
    }
  }
}

// While a unit is taken and not reported its stage cannot end, so that done_ is this stage's.
void ThreadPool::report(int thread)
{
  if (threads_[thread].taken > 0) {
    done_.fetch_add(threads_[thread].taken, std::memory_order_acq_rel);
    threads_[thread].taken = 0;
  }
}

void ThreadPool::barrier(int thread, int units)
{
  report(thread);
  const uint32_t stage = threads_[thread].stage++;
  int spins = 0;
  while (stage_.load(std::memory_order_acquire) == stage) {
    if (done_.load(std::memory_order_acquire) == units_.load(std::memory_order_relaxed)) {
      uint32_t claimed = stage;
      if (claimed_stage_.compare_exchange_strong(claimed, stage + 1)) {
        open_stage(stage + 1, units);
        return;
      }
    }
    linger(&spins);
  }
}

// Called by one thread, when all units of the stage before are done.
void ThreadPool::open_stage(uint32_t stage, int units)
{
  const uint64_t all = static_cast<uint64_t>(units);
  units_.store(units, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  for (int thread = 0; thread < num_threads_; ++thread) {
    const uint64_t begin = all * thread / num_threads_;
    const uint64_t end = all * (thread + 1) / num_threads_;
    shares_[thread].range.store(packed(stage, begin, end), std::memory_order_relaxed);
  }
  stage_.store(stage, std::memory_order_release);
}

void ThreadPool::work(int thread)
{
  uint32_t seen = 0;
  while (wait_for_job(seen)) {
    seen = job_number_.load(std::memory_order_acquire);
    if (enter(seen)) {
      threads_[thread].stage = first_stage_;
      job_(context_, thread);
      report(thread);
      inside_.fetch_sub(1, std::memory_order_release);
    }
  }
}

// Whether the worker is in the job: run() does not return while it is.
bool ThreadPool::enter(uint32_t job)
{
  inside_.fetch_add(1, std::memory_order_seq_cst);
  if (job % 2 == 1 && job_number_.load(std::memory_order_seq_cst) == job) {
    return true;
  }
  inside_.fetch_sub(1, std::memory_order_release);
  return false;
}

bool ThreadPool::wait_for_job(uint32_t seen)
{
  const auto until = std::chrono::steady_clock::now() + kAwake;
  const auto is_open = [&] {
      const uint32_t job = job_number_.load(std::memory_order_seq_cst);
      return (job % 2 == 1 && job != seen) || stop_.load();
    };
  int spins = 0;
  while (!is_open()) {
    linger(&spins);
    if (spins % 64 == 0 && std::chrono::steady_clock::now() > until) {
      std::unique_lock<std::mutex> lock(mutex_);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock, is_open);
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  return !stop_.load();
}

}  // namespace memspec
