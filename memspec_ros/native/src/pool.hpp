// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0

#ifndef POOL_HPP_
#define POOL_HPP_

#include "buffers.hpp"
#include "feature_scratch.hpp"
#include "memspec_native.h"
#include "thread_pool.hpp"

// Threads, and memory for what one call leaves to no other.
struct MsPool
{
  explicit MsPool(int num_threads)
  : threads(num_threads) {}

  memspec::ThreadPool threads;
  memspec::RowsBuffer rows;  // input of memspec_linear
  memspec::FeatureScratch feature;
};

#endif  // POOL_HPP_
