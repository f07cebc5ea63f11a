// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// The inner loops, as a table of functions that each instruction set fills.
//
// What a row yields depends on that row alone: sums run in one order, whatever the number of
// rows in the pass, their place in it, and the number of threads.

#ifndef KERNELS_HPP_
#define KERNELS_HPP_

#include <cstddef>
#include <cstdint>

#include "memspec_native.h"
#include "panel.hpp"

namespace memspec
{

// Activations: floats [rows, columns], and their codes, x ~ code * scale, per 32 columns.
//
// What a tile of rows needs of 32 columns lies side by side: codes are [columns / 32, capacity,
// 32], scales and sums [columns / 32, capacity].
struct Rows
{
  float * values;
  int8_t * codes;
  float * scales;
  float * sums;          // scale * sum of codes
  int32_t * code_sums;   // sum of codes
  ptrdiff_t stride;      // columns
  ptrdiff_t capacity;    // rows there is room for

  Rows from(int row) const
  {
    return {values + stride * row, codes + row * kCodeGroup, scales + row, sums + row,
      code_sums + row, stride, capacity};
  }

  // The same rows from a column on, a multiple of 32.
  Rows at_column(int column) const
  {
    const ptrdiff_t first = column / kCodeGroup * capacity;
    return {values + column, codes + first * kCodeGroup, scales + first, sums + first,
      code_sums + first, stride, capacity};
  }
};

// Where a panel's results go: rows of floats, `stride` apart.
struct Output
{
  float * values;
  ptrdiff_t stride;
  const float * bias;  // [rows of the matrix], or null
  bool add;            // to what is there, else replace it
};

// Keys and values of one KV head. Keys lie in blocks of 16 positions, [head_dim, 16] each, so
// that scores of 16 positions come out of one register column; values are [position, head_dim].
struct KvHead
{
  void * keys;
  void * values;
};

constexpr int kKeyBlock = 16;
constexpr int kChunk = 64;  // positions whose scores are handled together

// Weighted values of one chunk for one query head: sum, largest score, sum of weights.
struct PartialView
{
  float * mixed;  // [head_dim]
  float * stats;  // largest score, sum of weights
};

// What one head of a feature-conditioned draft sees: rows `stride` apart, the last of them the
// query's own.
struct WindowView
{
  const float * keys;
  const float * values;
  ptrdiff_t stride;
  int count;
  const float * distance_bias;  // added to the score of a row that many rows back, [count]
};

struct Kernels
{
  const char * name;

  // codes, scales and sums of `columns` values (a multiple of 32).
  void (* quantise)(const Rows & row, int columns);

  // Normed values of one row of `columns`; `weight` null leaves them as they are.
  void (* rms_norm)(
    const float * input, const float * weight, float epsilon, int columns, float * output);

  // One panel of rows of a matrix against `num_rows` rows of activations.
  void (* linear)(
    const MsMatrix & matrix, const Rows & rows, int num_rows, int panel, const Output & output);

  // silu(gate) * up, one panel of each.
  void (* gated)(
    const MsMatrix & gate, const MsMatrix & up, const Rows & rows, int num_rows, int panel,
    const Output & output);

  // Turn a head's halves by the position's angles and scale it, in place.
  void (* rotate)(
    float * head, const float * cosines, const float * sines, int head_dim, float scale);

  void (* store_key)(
    const KvHead & kv, int32_t kv_kind, const float * head, int position, int head_dim);
  void (* store_value)(
    const KvHead & kv, int32_t kv_kind, const float * head, int position, int head_dim);

  // Attend from query heads to positions from chunk * 64 up to each one's own limit
  // (exclusive; at least one position).
  void (* attend)(
    const KvHead & kv, int32_t kv_kind, int head_dim, int chunk, const float * const * queries,
    const int * limits, int num_queries, const PartialView * partials);

  // Merge a later chunk's partial into `into`.
  void (* merge)(const PartialView & into, const PartialView & chunk, int head_dim);

  // Divide by the sum of weights.
  void (* finish)(const PartialView & partial, int head_dim, float * output);

  // Attend to a window. head_dim is a multiple of 16; `scores` has room for `count`, rounded up
  // to a multiple of 16.
  void (* attend_window)(
    const WindowView & window, const float * query, int head_dim, float * scores,
    float * output);

  // Sum of products; `count` is a multiple of 16.
  float (* dot)(const float * a, const float * b, int count);
};

const Kernels * plain_kernels();
const Kernels * avx2_kernels();
const Kernels * avxvnni_kernels();
const Kernels * avx512vnni_kernels();
const Kernels * neon_dotprod_kernels();

// The table in use: the best that this machine runs and that agrees with the plain one.
const Kernels & kernels();

}  // namespace memspec

#endif  // KERNELS_HPP_
