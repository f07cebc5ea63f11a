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

}  // namespace

ThreadPool::ThreadPool(int num_threads)
: num_threads_(num_threads), shares_(new Share[num_threads])
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

bool ThreadPool::run(Job job, void * context, int units)
{
  if (busy_.exchange(true, std::memory_order_acquire)) {
    return false;
  }
  job_ = job;
  context_ = context;
  share_out(units);
  generation_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  job(context, 0);
  barrier(0);
  busy_.store(false, std::memory_order_release);
  return true;
}

bool ThreadPool::claim(int thread, int grain, int * begin, int * end)
{
  for (int i = 0; i < num_threads_; ++i) {
    Share & share = shares_[(thread + i) % num_threads_];
    if (share.next.load(std::memory_order_relaxed) >= share.end) {
      continue;
    }
    *begin = share.next.fetch_add(grain, std::memory_order_relaxed);
    if (*begin < share.end) {
      *end = *begin + grain < share.end ? *begin + grain : share.end;
      return true;
    }
  }
  return false;
}

void ThreadPool::barrier(int units)
{
  if (num_threads_ == 1) {
    share_out(units);
    return;
  }
  const uint32_t stage = stage_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == num_threads_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    share_out(units);
    stage_.store(stage + 1, std::memory_order_release);
    return;
  }
  int spins = 0;
  while (stage_.load(std::memory_order_acquire) == stage) {
    linger(&spins);
  }
}

void ThreadPool::share_out(int units)
{
  for (int thread = 0; thread < num_threads_; ++thread) {
    const int64_t all = units;
    shares_[thread].next.store(
      static_cast<int>(all * thread / num_threads_), std::memory_order_relaxed);
    shares_[thread].end = static_cast<int>(all * (thread + 1) / num_threads_);
  }
}

void ThreadPool::work(int thread)
{
  uint32_t seen = 0;
  while (wait_for_job(seen)) {
    ++seen;
    job_(context_, thread);
    barrier(0);
  }
}

bool ThreadPool::wait_for_job(uint32_t seen)
{
  const auto until = std::chrono::steady_clock::now() + kAwake;
  int spins = 0;
  while (generation_.load(std::memory_order_acquire) == seen && !stop_.load()) {
    linger(&spins);
    if (spins % 64 == 0 && std::chrono::steady_clock::now() > until) {
      std::unique_lock<std::mutex> lock(mutex_);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock, [&] {
          return generation_.load(std::memory_order_seq_cst) != seen || stop_.load();
        });
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  return !stop_.load();
}

}  // namespace memspec
