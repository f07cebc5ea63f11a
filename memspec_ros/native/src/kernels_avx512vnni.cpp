// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0

#include "simd_avx512.hpp"

#include "kernel_table.hpp"

namespace memspec
{

const Kernels * avx512vnni_kernels()
{
  static constexpr Kernels table = make_table("avx512vnni");
  return &table;
}

}  // namespace memspec
