// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0

#include "simd_neon.hpp"

#include "kernel_table.hpp"

namespace memspec
{

const Kernels * neon_dotprod_kernels()
{
  static constexpr Kernels table = make_table("neon_dotprod");
  return &table;
}

}  // namespace memspec
