// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// Products with many rows, where it pays to unpack a panel once to a byte a code. Blocks of
// columns and rows keep what is used again in the first-level cache; the sums are those of
// kernel_linear.hpp, in the same order.

#ifndef KERNEL_WIDE_HPP_
#define KERNEL_WIDE_HPP_

#include <cstdint>

#include "kernel_linear.hpp"

namespace memspec
{
namespace
{

constexpr int kBlockRows = 64;
constexpr int kBlockGroups = 24;     // 768 columns, unpacked 12 KiB

// Sums of a block of rows with one panel.
struct BlockSums
{
  alignas(64) float values[kBlockRows][kPanelRows];
};

// Some groups of a panel of INT4 codes, unpacked.
struct UnpackedPanel
{
  alignas(64) uint8_t codes[kBlockGroups][8 * kLineBytes];
  alignas(64) float scales[kBlockGroups][kPanelRows];
  alignas(64) float minima[kBlockGroups][kPanelRows];
};

template<class Scale>
void unpack_panel(
  const MsMatrix & matrix, int panel, int first, int count, UnpackedPanel * unpacked)
{
  const int parts = matrix.group / kCodeGroup;
  const uint8_t * start = panel_data(matrix, panel);
  for (int i = 0; i < count; ++i) {
    const int group = first + i;
    const uint8_t * data = start + group / parts * group_bytes(matrix);
    const uint8_t * numbers = data + code_bytes(matrix);
    Simd::unpack_int4(data + group % parts * Int4::kStep, unpacked->codes[i]);
    for (int v = 0; v < kVectors; ++v) {
      Simd::store(unpacked->scales[i] + v * kLanes, Scale::load(numbers, v));
      if (matrix.offset == MS_MINIMUM) {
        Simd::store(unpacked->minima[i] + v * kLanes, Scale::load(numbers + Scale::kBytes, v));
      }
    }
  }
}

template<int32_t kOffset, int M>
__attribute__((noinline)) void add_unpacked(
  const UnpackedPanel & panel, int count, const Rows & activations,
  float (* total)[kPanelRows])
{
  Rows rows = activations;
  F sums[M][kVectors];
  for (int m = 0; m < M; ++m) {
    for (int v = 0; v < kVectors; ++v) {
      sums[m][v] = Simd::load(total[m] + v * kLanes);
    }
  }
  for (int i = 0; i < count; ++i) {
    I dots[M][kVectors];
    Simd::dot_unpacked<M, kVectors>(panel.codes[i], rows.codes, dots);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const F row_scale = Simd::set(rows.scales[m]);
      const F row_sum = Simd::set(rows.sums[m]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        if (kOffset == MS_CENTRED) {
          dots[m][v] = Simd::minus_eight(dots[m][v], rows.code_sums[m]);
        }
        const F scale = Simd::mul(Simd::load(panel.scales[i] + v * kLanes), row_scale);
        sums[m][v] = Simd::fma(Simd::of_int(dots[m][v]), scale, sums[m][v]);
        if (kOffset == MS_MINIMUM) {
          sums[m][v] = Simd::fma(Simd::load(panel.minima[i] + v * kLanes), row_sum, sums[m][v]);
        }
      }
    }
    rows = next_group(rows);
  }
  for (int m = 0; m < M; ++m) {
    for (int v = 0; v < kVectors; ++v) {
      Simd::store(total[m] + v * kLanes, sums[m][v]);
    }
  }
}

// Add a panel times num_rows rows to sums.
template<class Scale>
void add_block(
  const MsMatrix & matrix, int panel, const Rows & rows, int num_rows, BlockSums * sums)
{
  UnpackedPanel unpacked;
  const int num_groups = matrix.columns / kCodeGroup;
  for (int first = 0; first < num_groups; first += kBlockGroups) {
    const int count = num_groups - first < kBlockGroups ? num_groups - first : kBlockGroups;
    unpack_panel<Scale>(matrix, panel, first, count, &unpacked);
    const Rows block = rows.at_column(first * kCodeGroup);
    in_tiles<4>(num_rows, [&](auto size, int row) {
        constexpr int M = decltype(size)::value;
        if (matrix.offset == MS_MINIMUM) {
          add_unpacked<MS_MINIMUM, M>(unpacked, count, block.from(row), sums->values + row);
        } else {
          add_unpacked<MS_CENTRED, M>(unpacked, count, block.from(row), sums->values + row);
        }
      });
  }
}

void start_block(const float * bias, int panel, int num_rows, BlockSums * sums)
{
  for (int row = 0; row < num_rows; ++row) {
    F start[1][kVectors];
    start_sums<1>(bias, panel, start);
    for (int v = 0; v < kVectors; ++v) {
      Simd::store(sums->values[row] + v * kLanes, start[0][v]);
    }
  }
}

void sum_block(
  const MsMatrix & matrix, int panel, const Rows & rows, int num_rows, const float * bias,
  BlockSums * sums)
{
  start_block(bias, panel, num_rows, sums);
  if (matrix.scale_kind == MS_FP16) {
    add_block<HalfScale>(matrix, panel, rows, num_rows, sums);
  } else {
    add_block<FloatScale>(matrix, panel, rows, num_rows, sums);
  }
}

void linear_wide(
  const MsMatrix & matrix, const Rows & rows, int num_rows, int panel, const Output & output)
{
  BlockSums sums;
  for (int first = 0; first < num_rows; first += kBlockRows) {
    const int count = num_rows - first < kBlockRows ? num_rows - first : kBlockRows;
    sum_block(matrix, panel, rows.from(first), count, output.bias, &sums);
    for (int row = 0; row < count; ++row) {
      for (int v = 0; v < kVectors; ++v) {
        put(
          place_of(output, first + row, panel, v), output.add,
          Simd::load(sums.values[row] + v * kLanes));
      }
    }
  }
}

void gated_wide(
  const MsMatrix & gate, const MsMatrix & up, const Rows & rows, int num_rows, int panel,
  const Output & output)
{
  BlockSums gates, ups;
  for (int first = 0; first < num_rows; first += kBlockRows) {
    const int count = num_rows - first < kBlockRows ? num_rows - first : kBlockRows;
    sum_block(gate, panel, rows.from(first), count, nullptr, &gates);
    sum_block(up, panel, rows.from(first), count, nullptr, &ups);
    for (int row = 0; row < count; ++row) {
      for (int v = 0; v < kVectors; ++v) {
        const F factor = silu(Simd::load(gates.values[row] + v * kLanes));
        Simd::store(
          place_of(output, first + row, panel, v),
          Simd::mul(factor, Simd::load(ups.values[row] + v * kLanes)));
      }
    }
  }
}

}  // namespace
}  // namespace memspec

#endif  // KERNEL_WIDE_HPP_
