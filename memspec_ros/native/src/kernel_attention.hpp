// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// Attention over the KV cache in chunks of 64 positions. A chunk's result depends on the query
// and the positions alone; chunks are merged in order (the running softmax of FlashAttention,
// Dao et al. 2022, algorithm 1), so any way of sharing out the work gives the same bits.

#ifndef KERNEL_ATTENTION_HPP_
#define KERNEL_ATTENTION_HPP_

#include <cstdint>

#include "half.hpp"
#include "kernel_math.hpp"

namespace memspec
{
namespace
{

inline F load_kv(const float * p) {return Simd::load(p);}
inline F load_kv(const uint16_t * p) {return Simd::load_half(p);}

// Ask for the 32 elements from p on, which the next step needs.
template<class Element>
inline void fetch_32(const Element * p)
{
  __builtin_prefetch(p);
  if (sizeof(Element) == 4) {
    __builtin_prefetch(p + 16);
  }
}

// Scores of Q queries and 32 positions. Meanwhile 32 * head_dim elements from `next` on come.
template<class Element, int Q>
inline void score_32(
  const Element * keys, const Element * next, int head_dim, const float * const * queries,
  float (* scores)[kChunk])
{
  constexpr int kParts = 2 * kVectors;
  F sums[Q][kParts];
  for (int q = 0; q < Q; ++q) {
    for (int part = 0; part < kParts; ++part) {
      sums[q][part] = Simd::zero();
    }
  }
  const Element * blocks[2] = {keys, keys + kKeyBlock * head_dim};
  for (int d = 0; d < head_dim; ++d) {
    fetch_32(next + d * 32);
    F value[Q];
    for (int q = 0; q < Q; ++q) {
      value[q] = Simd::set(queries[q][d]);
    }
    for (int part = 0; part < kParts; ++part) {
      const F key = load_kv(
        blocks[part / kVectors] + d * kKeyBlock + part % kVectors * kLanes);
      for (int q = 0; q < Q; ++q) {
        sums[q][part] = Simd::fma(key, value[q], sums[q][part]);
      }
    }
  }
  for (int q = 0; q < Q; ++q) {
    for (int part = 0; part < kParts; ++part) {
      Simd::store(scores[q] + part * kLanes, sums[q][part]);
    }
  }
}

// Turn the first `count` scores into weights e^(score - largest), the rest into 0.
inline void weigh(float * scores, int count, float * stats)
{
  Sixteen largest;
  for (int v = 0; v < kVectors; ++v) {
    largest.part[v] = Simd::set(-1e30f);
  }
  for (int i = 0; i < count; i += 16) {
    for (int v = 0; v < kVectors; ++v) {
      const int first = i + v * kLanes;
      const F x = Simd::take_first(
        Simd::load(scores + first), count - first, Simd::set(-1e30f));
      largest.part[v] = Simd::max(largest.part[v], x);
    }
  }
  stats[0] = Simd::max16(largest.part);
  Sixteen total;
  for (int v = 0; v < kVectors; ++v) {
    total.part[v] = Simd::zero();
  }
  for (int i = 0; i < kChunk; i += 16) {
    for (int v = 0; v < kVectors; ++v) {
      const int first = i + v * kLanes;
      F weight = Simd::zero();
      if (first < count) {
        weight = exponential(Simd::sub(Simd::load(scores + first), Simd::set(stats[0])));
        weight = Simd::take_first(weight, count - first, Simd::zero());
      }
      Simd::store(scores + first, weight);
      total.part[v] = Simd::add(total.part[v], weight);
    }
  }
  stats[1] = Simd::sum16(total.part);
}

// Weighted sums of `count` values, dimensions [first, first + 16 * B). Meanwhile 32 * count
// elements from `next` on come.
template<class Element, int Q, int B>
inline void mix_part(
  const Element * values, const Element * next, int head_dim, int count, int first,
  float (* weights)[kChunk], const PartialView * partials)
{
  constexpr int kParts = B * kVectors;
  F sums[Q][kParts];
  for (int q = 0; q < Q; ++q) {
    for (int part = 0; part < kParts; ++part) {
      sums[q][part] = Simd::zero();
    }
  }
  for (int p = 0; p < count; ++p) {
    fetch_32(next + p * 32);
    F weight[Q];
    for (int q = 0; q < Q; ++q) {
      weight[q] = Simd::set(weights[q][p]);
    }
    for (int part = 0; part < kParts; ++part) {
      const F value = load_kv(values + p * head_dim + first + part * kLanes);
      for (int q = 0; q < Q; ++q) {
        sums[q][part] = Simd::fma(value, weight[q], sums[q][part]);
      }
    }
  }
  for (int q = 0; q < Q; ++q) {
    for (int part = 0; part < kParts; ++part) {
      Simd::store(partials[q].mixed + first + part * kLanes, sums[q][part]);
    }
  }
}

template<class Element, int Q>
void attend_queries(
  const KvHead & kv, int head_dim, int chunk, const float * const * queries, const int * limits,
  const PartialView * partials)
{
  const int start = chunk * kChunk;
  const Element * keys = static_cast<const Element *>(kv.keys) + start * ptrdiff_t{head_dim};
  const Element * values = static_cast<const Element *>(kv.values) + start * ptrdiff_t{head_dim};
  int counts[Q];
  int most = 0;
  for (int q = 0; q < Q; ++q) {
    counts[q] = limits[q] - start < kChunk ? limits[q] - start : kChunk;
    most = counts[q] > most ? counts[q] : most;
  }
  float scores[Q][kChunk];
  for (int i = 0; i < most; i += 32) {
    float (* place)[kChunk] = reinterpret_cast<float (*)[kChunk]>(scores[0] + i);
    const ptrdiff_t first = i * ptrdiff_t{head_dim};
    score_32<Element, Q>(keys + first, values + first, head_dim, queries, place);
  }
  for (int q = 0; q < Q; ++q) {
    weigh(scores[q], counts[q], partials[q].stats);
  }
  int first = 0;
  for (; first + 32 <= head_dim; first += 32) {
    const Element * next = keys + kChunk * (head_dim + first);  // the next chunk's keys
    mix_part<Element, Q, 2>(values, next, head_dim, most, first, scores, partials);
  }
  if (first < head_dim) {
    mix_part<Element, Q, 1>(values, values, head_dim, most, first, scores, partials);
  }
}

template<class Element>
void attend_all(
  const KvHead & kv, int head_dim, int chunk, const float * const * queries, const int * limits,
  int num_queries, const PartialView * partials)
{
  int q = 0;
  for (; q + 3 <= num_queries; q += 3) {
    attend_queries<Element, 3>(kv, head_dim, chunk, queries + q, limits + q, partials + q);
  }
  switch (num_queries - q) {
    case 1:
      return attend_queries<Element, 1>(
        kv, head_dim, chunk, queries + q, limits + q, partials + q);
    case 2:
      return attend_queries<Element, 2>(
        kv, head_dim, chunk, queries + q, limits + q, partials + q);
    default: return;
  }
}

void attend(
  const KvHead & kv, int32_t kv_kind, int head_dim, int chunk, const float * const * queries,
  const int * limits, int num_queries, const PartialView * partials)
{
  if (kv_kind == MS_FP16) {
    attend_all<uint16_t>(kv, head_dim, chunk, queries, limits, num_queries, partials);
  } else {
    attend_all<float>(kv, head_dim, chunk, queries, limits, num_queries, partials);
  }
}

void merge(const PartialView & into, const PartialView & chunk, int head_dim)
{
  const float largest = into.stats[0] > chunk.stats[0] ? into.stats[0] : chunk.stats[0];
  const float old_share = exponential_of(into.stats[0] - largest);
  const float new_share = exponential_of(chunk.stats[0] - largest);
  const F old_factor = Simd::set(old_share);
  const F new_factor = Simd::set(new_share);
  for (int i = 0; i < head_dim; i += kLanes) {
    const F kept = Simd::mul(Simd::load(into.mixed + i), old_factor);
    Simd::store(into.mixed + i, Simd::fma(Simd::load(chunk.mixed + i), new_factor, kept));
  }
  into.stats[0] = largest;
  into.stats[1] = into.stats[1] * old_share + chunk.stats[1] * new_share;
}

void finish(const PartialView & partial, int head_dim, float * output)
{
  const F factor = Simd::set(1.0f / partial.stats[1]);
  for (int i = 0; i < head_dim; i += kLanes) {
    Simd::store(output + i, Simd::mul(Simd::load(partial.mixed + i), factor));
  }
}

void to_half(const float * values, int count, uint16_t * halves)
{
  for (int i = 0; i < count; i += kLanes) {
    Simd::store_half(halves + i, Simd::load(values + i));
  }
}

constexpr int kMaxHeadDim = 512;

void store_key(
  const KvHead & kv, int32_t kv_kind, const float * head, int position, int head_dim)
{
  const ptrdiff_t place =
    position / kKeyBlock * ptrdiff_t{kKeyBlock} * head_dim + position % kKeyBlock;
  if (kv_kind == MS_FP16) {
    uint16_t halves[kMaxHeadDim];
    to_half(head, head_dim, halves);
    uint16_t * keys = static_cast<uint16_t *>(kv.keys) + place;
    for (int d = 0; d < head_dim; ++d) {
      keys[d * kKeyBlock] = halves[d];
    }
  } else {
    float * keys = static_cast<float *>(kv.keys) + place;
    for (int d = 0; d < head_dim; ++d) {
      keys[d * kKeyBlock] = head[d];
    }
  }
}

void store_value(
  const KvHead & kv, int32_t kv_kind, const float * head, int position, int head_dim)
{
  const ptrdiff_t place = position * ptrdiff_t{head_dim};
  if (kv_kind == MS_FP16) {
    to_half(head, head_dim, static_cast<uint16_t *>(kv.values) + place);
  } else {
    float * values = static_cast<float *>(kv.values) + place;
    for (int d = 0; d < head_dim; ++d) {
      values[d] = head[d];
    }
  }
}

}  // namespace
}  // namespace memspec

#endif  // KERNEL_ATTENTION_HPP_
