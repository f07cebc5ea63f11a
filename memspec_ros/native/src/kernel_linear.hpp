// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// A panel of 16 matrix rows against tiles of activation rows. A panel is unpacked once for all
// rows of a tile; per row and group of 32 columns the integer dot product is exact, and one float
// sum takes the groups in order.

#ifndef KERNEL_LINEAR_HPP_
#define KERNEL_LINEAR_HPP_

#include <cstdint>
#include <cstring>

#include "half.hpp"
#include "kernel_math.hpp"

namespace memspec
{
namespace
{

struct Int4
{
  static constexpr int kStep = 4 * kLineBytes;  // bytes of 32 columns
  template<int M>
  static void dot(const uint8_t * lines, const Rows & rows, int group, I (&result)[M][kVectors])
  {
    Simd::dot_int4<M, kVectors>(
      lines, rows.codes + group * kCodeGroup, rows.stride, rows.code_sums + group, result);
  }
};

struct Int8
{
  static constexpr int kStep = 8 * kLineBytes;
  template<int M>
  static void dot(const uint8_t * lines, const Rows & rows, int group, I (&result)[M][kVectors])
  {
    Simd::dot_int8<M, kVectors>(
      lines, rows.codes + group * kCodeGroup, rows.stride, rows.code_sums + group, result);
  }
};

struct HalfScale
{
  static constexpr int kBytes = 2 * kPanelRows;
  static F load(const uint8_t * p, int v)
  {
    return Simd::load_half(reinterpret_cast<const uint16_t *>(p) + v * kLanes);
  }
};

struct FloatScale
{
  static constexpr int kBytes = 4 * kPanelRows;
  static F load(const uint8_t * p, int v)
  {
    return Simd::load(reinterpret_cast<const float *>(p) + v * kLanes);
  }
};

// Add a panel of codes times M rows to sums. The sums are copied, since bytes may alias anything:
// the compiler would write them back after every group.
template<class Codes, class Scale, int32_t kOffset, int M>
__attribute__((noinline)) void add_coded(
  const MsMatrix & matrix, int panel, const Rows & activations, F (&total)[M][kVectors])
{
  const Rows rows = activations;
  F sums[M][kVectors];
  std::memcpy(sums, total, sizeof(sums));
  const ptrdiff_t stride = rows.stride / kCodeGroup;
  const int parts = matrix.group / kCodeGroup;
  const uint8_t * data = panel_data(matrix, panel);
  const ptrdiff_t ahead = panel_bytes(matrix);  // the next panel, fetched meanwhile
  const int num_groups = matrix.columns / kCodeGroup;
  for (int group = 0; group < num_groups; ) {
    const uint8_t * numbers = data + Codes::kStep * parts;
    F scale[kVectors], minimum[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      scale[v] = Scale::load(numbers, v);
      if (kOffset == MS_MINIMUM) {
        minimum[v] = Scale::load(numbers + Scale::kBytes, v);
      }
    }
    for (int part = 0; part < parts; ++part, ++group, data += Codes::kStep) {
      I dots[M][kVectors];
      for (int line = 0; line < Codes::kStep / kLineBytes + 1; ++line) {
        __builtin_prefetch(data + ahead + line * kLineBytes);
      }
      Codes::template dot<M>(data, rows, group, dots);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const F row_scale = Simd::set(rows.scales[m * stride + group]);
        const F row_sum = Simd::set(rows.sums[m * stride + group]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          if (kOffset == MS_CENTRED) {
            dots[m][v] = Simd::minus_eight(dots[m][v], rows.code_sums[m * stride + group]);
          }
          sums[m][v] = Simd::fma(
            Simd::of_int(dots[m][v]), Simd::mul(scale[v], row_scale), sums[m][v]);
          if (kOffset == MS_MINIMUM) {
            sums[m][v] = Simd::fma(minimum[v], row_sum, sums[m][v]);
          }
        }
      }
    }
    data = numbers + Scale::kBytes * (kOffset == MS_MINIMUM ? 2 : 1);
  }
  std::memcpy(total, sums, sizeof(sums));
}

struct Floats
{
  using Element = float;
  static F load(const float * p) {return Simd::load(p);}
};

struct Halves
{
  using Element = uint16_t;
  static F load(const uint16_t * p) {return Simd::load_half(p);}
};

struct Brains
{
  using Element = uint16_t;
  static F load(const uint16_t * p) {return Simd::load_bf16(p);}
};

template<class Format, int M>
__attribute__((noinline)) void add_dense(
  const MsMatrix & matrix, int panel, const Rows & rows, F (&total)[M][kVectors])
{
  F sums[M][kVectors];
  std::memcpy(sums, total, sizeof(sums));
  using Element = typename Format::Element;
  const Element * data = reinterpret_cast<const Element *>(panel_data(matrix, panel));
  for (int column = 0; column < matrix.columns; ++column, data += kPanelRows) {
    F weights[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = Format::load(data + v * kLanes);
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const F value = Simd::set(rows.values[m * rows.stride + column]);
      for (int v = 0; v < kVectors; ++v) {
        sums[m][v] = Simd::fma(weights[v], value, sums[m][v]);
      }
    }
  }
  std::memcpy(total, sums, sizeof(sums));
}

template<int M>
inline void add_panel(
  const MsMatrix & matrix, int panel, const Rows & rows, F (&sums)[M][kVectors])
{
  const bool half = matrix.scale_kind == MS_FP16;
  switch (matrix.kind) {
    case MS_FP32: return add_dense<Floats, M>(matrix, panel, rows, sums);
    case MS_FP16: return add_dense<Halves, M>(matrix, panel, rows, sums);
    case MS_BF16: return add_dense<Brains, M>(matrix, panel, rows, sums);
    case MS_INT8:
      return half ? add_coded<Int8, HalfScale, MS_NO_OFFSET, M>(matrix, panel, rows, sums) :
             add_coded<Int8, FloatScale, MS_NO_OFFSET, M>(matrix, panel, rows, sums);
    default:
      if (matrix.offset == MS_CENTRED) {
        return half ? add_coded<Int4, HalfScale, MS_CENTRED, M>(matrix, panel, rows, sums) :
               add_coded<Int4, FloatScale, MS_CENTRED, M>(matrix, panel, rows, sums);
      }
      return half ? add_coded<Int4, HalfScale, MS_MINIMUM, M>(matrix, panel, rows, sums) :
             add_coded<Int4, FloatScale, MS_MINIMUM, M>(matrix, panel, rows, sums);
  }
}

template<int M>
void linear_tile(const MsMatrix & matrix, const Rows & rows, int panel, const Output & output)
{
  F sums[M][kVectors];
  for (int m = 0; m < M; ++m) {
    for (int v = 0; v < kVectors; ++v) {
      sums[m][v] = output.bias ? Simd::load(output.bias + panel * kPanelRows + v * kLanes) :
        Simd::zero();
    }
  }
  add_panel<M>(matrix, panel, rows, sums);
  for (int m = 0; m < M; ++m) {
    for (int v = 0; v < kVectors; ++v) {
      float * place = output.values + m * output.stride + panel * kPanelRows + v * kLanes;
      Simd::store(place, output.add ? Simd::add(Simd::load(place), sums[m][v]) : sums[m][v]);
    }
  }
}

template<int M>
void gated_tile(
  const MsMatrix & gate, const MsMatrix & up, const Rows & rows, int panel,
  const Output & output)
{
  F gates[M][kVectors], ups[M][kVectors];
  for (int m = 0; m < M; ++m) {
    for (int v = 0; v < kVectors; ++v) {
      gates[m][v] = ups[m][v] = Simd::zero();
    }
  }
  add_panel<M>(gate, panel, rows, gates);
  add_panel<M>(up, panel, rows, ups);
  for (int m = 0; m < M; ++m) {
    for (int v = 0; v < kVectors; ++v) {
      Simd::store(
        output.values + m * output.stride + panel * kPanelRows + v * kLanes,
        Simd::mul(silu(gates[m][v]), ups[m][v]));
    }
  }
}

inline Output from_row(const Output & output, int row)
{
  return {output.values + output.stride * row, output.stride, output.bias, output.add};
}

void linear(
  const MsMatrix & matrix, const Rows & rows, int num_rows, int panel, const Output & output)
{
  int row = 0;
  for (; row + 4 <= num_rows; row += 4) {
    linear_tile<4>(matrix, rows.from(row), panel, from_row(output, row));
  }
  switch (num_rows - row) {
    case 1: return linear_tile<1>(matrix, rows.from(row), panel, from_row(output, row));
    case 2: return linear_tile<2>(matrix, rows.from(row), panel, from_row(output, row));
    case 3: return linear_tile<3>(matrix, rows.from(row), panel, from_row(output, row));
    default: return;
  }
}

void gated(
  const MsMatrix & gate, const MsMatrix & up, const Rows & rows, int num_rows, int panel,
  const Output & output)
{
  int row = 0;
  for (; row + 4 <= num_rows; row += 4) {
    gated_tile<4>(gate, up, rows.from(row), panel, from_row(output, row));
  }
  switch (num_rows - row) {
    case 1: return gated_tile<1>(gate, up, rows.from(row), panel, from_row(output, row));
    case 2: return gated_tile<2>(gate, up, rows.from(row), panel, from_row(output, row));
    case 3: return gated_tile<3>(gate, up, rows.from(row), panel, from_row(output, row));
    default: return;
  }
}

}  // namespace
}  // namespace memspec

#endif  // KERNEL_LINEAR_HPP_
