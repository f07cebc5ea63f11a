// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// One panel against any number of rows.

#ifndef KERNEL_PRODUCTS_HPP_
#define KERNEL_PRODUCTS_HPP_

#include "kernel_linear.hpp"

#if defined(MEMSPEC_UNPACKS_WIDE)
#include "kernel_wide.hpp"
#endif

namespace memspec
{
namespace
{

#if defined(MEMSPEC_UNPACKS_WIDE)
constexpr int kWide = 16;  // rows from which unpacking pays

inline bool unpacks(const MsMatrix & matrix, int num_rows)
{
  return matrix.kind == MS_INT4 && num_rows >= kWide;
}
#endif

void linear(
  const MsMatrix & matrix, const Rows & rows, int num_rows, int panel, const Output & output)
{
#if defined(MEMSPEC_UNPACKS_WIDE)
  if (unpacks(matrix, num_rows)) {
    return linear_wide(matrix, rows, num_rows, panel, output);
  }
#endif
  const auto tile = [&](auto size, int row) {
      linear_tile<decltype(size)::value>(matrix, rows, row, panel, output);
    };
  is_coded(matrix) ? in_tiles<8>(num_rows, tile) : in_tiles<Simd::kDenseRows>(num_rows, tile);
}

void gated(
  const MsMatrix & gate, const MsMatrix & up, const Rows & rows, int num_rows, int panel,
  const Output & output)
{
#if defined(MEMSPEC_UNPACKS_WIDE)
  if (unpacks(gate, num_rows) && unpacks(up, num_rows)) {
    return gated_wide(gate, up, rows, num_rows, panel, output);
  }
#endif
  const auto tile = [&](auto size, int row) {
      gated_tile<decltype(size)::value>(gate, up, rows, row, panel, output);
    };
  is_coded(gate) ? in_tiles<8>(num_rows, tile) : in_tiles<Simd::kDenseRows>(num_rows, tile);
}

}  // namespace
}  // namespace memspec

#endif  // KERNEL_PRODUCTS_HPP_
