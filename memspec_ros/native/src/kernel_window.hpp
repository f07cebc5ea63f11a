// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// Attention of one head over a window of consecutive rows, with a bias for each distance: what a
// feature-conditioned draft has in place of a KV cache.

#ifndef KERNEL_WINDOW_HPP_
#define KERNEL_WINDOW_HPP_

#include <cstdint>

#include "kernel_math.hpp"

namespace memspec
{
namespace
{

inline float dot(const float * a, const float * b, int count)
{
  Sixteen sums;
  for (int v = 0; v < kVectors; ++v) {
    sums.part[v] = Simd::zero();
  }
  for (int i = 0; i < count; i += 16) {
    for (int v = 0; v < kVectors; ++v) {
      const int at = i + v * kLanes;
      sums.part[v] = Simd::fma(Simd::load(a + at), Simd::load(b + at), sums.part[v]);
    }
  }
  return Simd::sum16(sums.part);
}

// Turn `count` scores, in room for a multiple of 16, into weights; returns their sum.
inline float weigh_window(float * scores, int count)
{
  Sixteen largest, total;
  for (int v = 0; v < kVectors; ++v) {
    largest.part[v] = Simd::set(-1e30f);
    total.part[v] = Simd::zero();
  }
  for (int i = 0; i < count; i += 16) {
    for (int v = 0; v < kVectors; ++v) {
      const int at = i + v * kLanes;
      const F x = Simd::take_first(Simd::load(scores + at), count - at, Simd::set(-1e30f));
      largest.part[v] = Simd::max(largest.part[v], x);
    }
  }
  const F top = Simd::set(Simd::max16(largest.part));
  for (int i = 0; i < count; i += 16) {
    for (int v = 0; v < kVectors; ++v) {
      const int at = i + v * kLanes;
      const F weight = Simd::take_first(
        exponential(Simd::sub(Simd::load(scores + at), top)), count - at, Simd::zero());
      Simd::store(scores + at, weight);
      total.part[v] = Simd::add(total.part[v], weight);
    }
  }
  return Simd::sum16(total.part);
}

// Weighted sums of the values' columns [first, first + 16 * B), divided by `total`.
template<int B>
inline void mix_window(
  const WindowView & window, const float * weights, float total, int first, float * output)
{
  constexpr int kParts = B * kVectors;
  F sums[kParts];
  for (int part = 0; part < kParts; ++part) {
    sums[part] = Simd::zero();
  }
  const float * values = window.values + first;
  for (int i = 0; i < window.count; ++i, values += window.stride) {
    const F weight = Simd::set(weights[i]);
    for (int part = 0; part < kParts; ++part) {
      sums[part] = Simd::fma(Simd::load(values + part * kLanes), weight, sums[part]);
    }
  }
  const F inverse = Simd::set(1.0f / total);
  for (int part = 0; part < kParts; ++part) {
    Simd::store(output + first + part * kLanes, Simd::mul(sums[part], inverse));
  }
}

void attend_window(
  const WindowView & window, const float * query, int head_dim, float * scores, float * output)
{
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(head_dim));
  const float * keys = window.keys;
  for (int i = 0; i < window.count; ++i, keys += window.stride) {
    scores[i] = dot(query, keys, head_dim) * scale + window.distance_bias[window.count - 1 - i];
  }
  const float total = weigh_window(scores, window.count);
  int first = 0;
  for (; first + 64 <= head_dim; first += 64) {
    mix_window<4>(window, scores, total, first, output);
  }
  for (; first < head_dim; first += 16) {
    mix_window<1>(window, scores, total, first, output);
  }
}

}  // namespace
}  // namespace memspec

#endif  // KERNEL_WINDOW_HPP_
