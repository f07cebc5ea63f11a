// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0

#include "simd_plain.hpp"

#include "kernel_table.hpp"

namespace memspec
{

const Kernels * plain_kernels()
{
  static constexpr Kernels table = make_table("plain");
  return &table;
}

}  // namespace memspec
