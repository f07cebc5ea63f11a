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

void ThreadPool::run(Job job, void * context, int units)
{
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
}

bool ThreadPool::claim(int thread, int * unit)
{
  if (take(shares_[thread], false, unit)) {
    return true;
  }
  for (int i = 1; i < num_threads_; ++i) {
    if (take(shares_[(thread + i) % num_threads_], true, unit)) {
      return true;
    }
  }
  return false;
}

bool ThreadPool::take(Share & share, bool from_end, int * unit)
{
  uint64_t range = share.range.load(std::memory_order_relaxed);
  while (true) {
    const uint32_t begin = static_cast<uint32_t>(range);
    const uint32_t end = static_cast<uint32_t>(range >> 32);
    if (begin >= end) {
      return false;
    }
    *unit = static_cast<int>(from_end ? end - 1 : begin);
    const uint64_t left = from_end ? range - (uint64_t{1} << 32) : range + 1;
    if (share.range.compare_exchange_weak(range, left, std::memory_order_relaxed)) {
      return true;
    }
  }
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
  const uint64_t all = static_cast<uint64_t>(units);
  for (int thread = 0; thread < num_threads_; ++thread) {
    const uint64_t begin = all * thread / num_threads_;
    const uint64_t end = all * (thread + 1) / num_threads_;
    shares_[thread].range.store(begin | end << 32, std::memory_order_relaxed);
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
