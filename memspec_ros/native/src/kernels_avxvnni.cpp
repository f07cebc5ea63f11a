// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0

#include "simd_avx2.hpp"

#include "kernel_table.hpp"

namespace memspec
{

const Kernels * avxvnni_kernels()
{
  static constexpr Kernels table = make_table("avxvnni");
  return &table;
}

}  // namespace memspec
