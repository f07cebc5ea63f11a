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

template<int N>
struct Size
{
  static constexpr int value = N;
};

struct Int4
{
  static constexpr int kStep = 4 * kLineBytes;  // bytes of 32 columns
  template<int M, int V>
  static void dot(const uint8_t * lines, const Rows & rows, I (&result)[M][V])
  {
    Simd::dot_int4<M, V>(lines, rows.codes, rows.code_sums, result);
  }
};

struct Int8
{
  static constexpr int kStep = 8 * kLineBytes;
  template<int M, int V>
  static void dot(const uint8_t * lines, const Rows & rows, I (&result)[M][V])
  {
    Simd::dot_int8<M, V>(lines, rows.codes, rows.code_sums, result);
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

inline Rows next_group(const Rows & rows)
{
  return {rows.values, rows.codes + rows.capacity * kCodeGroup, rows.scales + rows.capacity,
    rows.sums + rows.capacity, rows.code_sums + rows.capacity, rows.stride, rows.capacity};
}

// Add a panel of codes times M rows to sums. The sums are copied, since bytes may alias anything:
// the compiler would write them back after every group.
template<class Codes, class Scale, int32_t kOffset, int M>
__attribute__((noinline)) void add_coded(
  const MsMatrix & matrix, int panel, const Rows & activations, F (&total)[M][kVectors])
{
  // Vectors of a panel whose integer sums fit the registers together.
  constexpr int kPart = M > 4 && kVectors > 1 ? kVectors / 2 : kVectors;
  Rows rows = activations;
  F sums[M][kVectors];
  std::memcpy(sums, total, sizeof(sums));
  const int parts = matrix.group / kCodeGroup;
  const uint8_t * data = panel_data(matrix, panel);
  const ptrdiff_t ahead = panel_bytes(matrix);  // the next panel, fetched meanwhile
  const int num_groups = matrix.columns / kCodeGroup;
  for (int group = 0; group < num_groups; group += parts) {
    const uint8_t * numbers = data + Codes::kStep * parts;
    F scale[kVectors], minimum[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      scale[v] = Scale::load(numbers, v);
      if (kOffset == MS_MINIMUM) {
        minimum[v] = Scale::load(numbers + Scale::kBytes, v);
      }
    }
    for (int part = 0; part < parts; ++part, data += Codes::kStep) {
      for (int line = 0; line < Codes::kStep / kLineBytes + 1; ++line) {
        __builtin_prefetch(data + ahead + line * kLineBytes);
      }
#pragma GCC unroll 4
      for (int first = 0; first < kVectors; first += kPart) {
        // Loads the activations anew: the compiler would park them all on the stack.
        __asm__ ("" : "+r" (rows.codes));
        I dots[M][kPart];
        Codes::template dot<M, kPart>(
          data + first * (kLineBytes / kVectors), rows, dots);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) {
          const F row_scale = Simd::set(rows.scales[m]);
          const F row_sum = Simd::set(rows.sums[m]);
#pragma GCC unroll 4
          for (int i = 0; i < kPart; ++i) {
            const int v = first + i;
            if (kOffset == MS_CENTRED) {
              dots[m][i] = Simd::minus_eight(dots[m][i], rows.code_sums[m]);
            }
            sums[m][v] = Simd::fma(
              Simd::of_int(dots[m][i]), Simd::mul(scale[v], row_scale), sums[m][v]);
            if (kOffset == MS_MINIMUM) {
              sums[m][v] = Simd::fma(minimum[v], row_sum, sums[m][v]);
            }
          }
        }
      }
      rows = next_group(rows);
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

// From where the sums of a tile start.
template<int M>
inline void start_sums(const float * bias, int panel, F (&sums)[M][kVectors])
{
  for (int m = 0; m < M; ++m) {
    for (int v = 0; v < kVectors; ++v) {
      sums[m][v] = bias ? Simd::load(bias + panel * kPanelRows + v * kLanes) : Simd::zero();
    }
  }
}

inline void put(float * place, bool add, F sum)
{
  Simd::store(place, add ? Simd::add(Simd::load(place), sum) : sum);
}

inline float * place_of(const Output & output, int row, int panel, int v)
{
  return output.values + row * output.stride + panel * kPanelRows + v * kLanes;
}

template<int M>
void linear_tile(
  const MsMatrix & matrix, const Rows & rows, int row, int panel, const Output & output)
{
  F sums[M][kVectors];
  start_sums<M>(output.bias, panel, sums);
  add_panel<M>(matrix, panel, rows.from(row), sums);
  for (int m = 0; m < M; ++m) {
    for (int v = 0; v < kVectors; ++v) {
      put(place_of(output, row + m, panel, v), output.add, sums[m][v]);
    }
  }
}

template<int M>
void gated_tile(
  const MsMatrix & gate, const MsMatrix & up, const Rows & rows, int row, int panel,
  const Output & output)
{
  F gates[M][kVectors], ups[M][kVectors];
  start_sums<M>(nullptr, panel, gates);
  start_sums<M>(nullptr, panel, ups);
  add_panel<M>(gate, panel, rows.from(row), gates);
  add_panel<M>(up, panel, rows.from(row), ups);
  for (int m = 0; m < M; ++m) {
    for (int v = 0; v < kVectors; ++v) {
      Simd::store(place_of(output, row + m, panel, v), Simd::mul(silu(gates[m][v]), ups[m][v]));
    }
  }
}

// Call tile(M, row) for the last num_rows rows, at most kMost.
template<int kMost, class Tile>
inline void in_one_tile(int num_rows, int row, const Tile & tile)
{
  if constexpr (kMost > 0) {
    if (num_rows == kMost) {
      tile(Size<kMost>(), row);
    } else {
      in_one_tile<kMost - 1>(num_rows, row, tile);
    }
  }
}

// Call tile(M, row) for rows 0 to num_rows, in tiles of kMost rows and a last one of fewer.
template<int kMost, class Tile>
inline void in_tiles(int num_rows, const Tile & tile)
{
  int row = 0;
  for (; row + kMost <= num_rows; row += kMost) {
    tile(Size<kMost>(), row);
  }
  in_one_tile<kMost - 1>(num_rows - row, row, tile);
}

}  // namespace
}  // namespace memspec

#endif  // KERNEL_LINEAR_HPP_
