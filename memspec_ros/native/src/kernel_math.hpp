// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// Elementwise mathematics and sums over the vector type `Simd` of the including unit. Sums run
// over 16 lanes whatever the register's width, so that all instruction sets with a fused
// multiply-add give the same bits.

#ifndef KERNEL_MATH_HPP_
#define KERNEL_MATH_HPP_

#include <cstdint>

#include "kernels.hpp"

namespace memspec
{
namespace
{

using F = Simd::F;
using I = Simd::I;
constexpr int kLanes = Simd::kLanes;
constexpr int kVectors = Simd::kVectors;  // that hold 16 lanes

// 16 floats.
struct Sixteen
{
  F part[kVectors];
};

// e^x within 2 units in the last place; x below -87 gives about 1e-38.
// x = n ln 2 + r, and e^r by its Taylor polynomial for |r| <= ln 2 / 2.
inline F exponential(F x)
{
  x = Simd::min(Simd::max(x, Simd::set(-87.0f)), Simd::set(88.0f));
  const F n = Simd::round(Simd::mul(x, Simd::set(1.44269504f)));
  F r = Simd::fma(n, Simd::set(-0.693359375f), x);
  r = Simd::fma(n, Simd::set(2.12194440e-4f), r);
  F sum = Simd::set(1.0f / 5040);
  sum = Simd::fma(sum, r, Simd::set(1.0f / 720));
  sum = Simd::fma(sum, r, Simd::set(1.0f / 120));
  sum = Simd::fma(sum, r, Simd::set(1.0f / 24));
  sum = Simd::fma(sum, r, Simd::set(1.0f / 6));
  sum = Simd::fma(sum, r, Simd::set(0.5f));
  sum = Simd::fma(sum, r, Simd::set(1.0f));
  sum = Simd::fma(sum, r, Simd::set(1.0f));
  return Simd::mul(sum, Simd::power_of_two(n));
}

inline float exponential_of(float x)
{
  float lanes[kLanes];
  Simd::store(lanes, exponential(Simd::set(x)));
  return lanes[0];
}

inline F silu(F x)
{
  const F denominator = Simd::add(Simd::set(1.0f), exponential(Simd::sub(Simd::zero(), x)));
  return Simd::div(x, denominator);
}

inline F magnitude(F x) {return Simd::max(x, Simd::sub(Simd::zero(), x));}

// Round 32 values to codes of -127..127 with one scale: |x - code * scale| <= scale / 2.
inline void quantise_group(const float * values, int8_t * codes, float * scale, float * sum,
  int32_t * code_sum)
{
  Sixteen largest;
  for (int v = 0; v < kVectors; ++v) {
    largest.part[v] = Simd::max(
      magnitude(Simd::load(values + v * kLanes)),
      magnitude(Simd::load(values + 16 + v * kLanes)));
  }
  const float limit = Simd::max16(largest.part);
  const float inverse = limit > 1e-30f ? 127.0f / limit : 0.0f;
  F scaled[kCodeGroup / kLanes];
  for (int i = 0; i < kCodeGroup / kLanes; ++i) {
    scaled[i] = Simd::mul(Simd::load(values + i * kLanes), Simd::set(inverse));
  }
  const int32_t total = Simd::store_codes(codes, scaled);
  *scale = limit > 1e-30f ? limit / 127.0f : 0.0f;
  *sum = *scale * static_cast<float>(total);
  *code_sum = total;
}

void quantise(const Rows & row, int columns)
{
  for (int column = 0; column < columns; column += kCodeGroup) {
    const Rows group = row.at_column(column);
    quantise_group(group.values, group.codes, group.scales, group.sums, group.code_sums);
  }
}

void rms_norm(const float * input, const float * weight, float epsilon, int columns,
  float * output)
{
  Sixteen squares;
  for (int v = 0; v < kVectors; ++v) {
    squares.part[v] = Simd::zero();
  }
  for (int i = 0; i < columns; i += 16) {
    for (int v = 0; v < kVectors; ++v) {
      const F x = Simd::load(input + i + v * kLanes);
      squares.part[v] = Simd::fma(x, x, squares.part[v]);
    }
  }
  const float mean = Simd::sum16(squares.part) / static_cast<float>(columns);
  const F factor = Simd::set(1.0f / __builtin_sqrtf(mean + epsilon));
  for (int i = 0; i < columns; i += kLanes) {
    const F normed = Simd::mul(Simd::load(input + i), factor);
    Simd::store(output + i, weight ? Simd::mul(normed, Simd::load(weight + i)) : normed);
  }
}

void rotate(float * head, const float * cosines, const float * sines, int head_dim, float scale)
{
  const int half = head_dim / 2;
  for (int i = 0; i < half; ++i) {
    const float a = head[i];
    const float b = head[i + half];
    head[i] = (a * cosines[i] - b * sines[i]) * scale;
    head[i + half] = (b * cosines[i] + a * sines[i]) * scale;
  }
}

}  // namespace
}  // namespace memspec

#endif  // KERNEL_MATH_HPP_
