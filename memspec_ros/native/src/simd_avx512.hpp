// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// AVX-512 with VNNI (Ice Lake, Zen 4 and later).

#ifndef SIMD_AVX512_HPP_
#define SIMD_AVX512_HPP_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "panel.hpp"

namespace memspec
{
namespace
{

struct Simd
{
  static constexpr int kLanes = 16;
  static constexpr int kVectors = kPanelRows / kLanes;
  static constexpr int kDenseRows = 8;  // whose float sums fit the registers
  using F = __m512;
  using I = __m512i;

  static F zero() {return _mm512_setzero_ps();}
  static F set(float x) {return _mm512_set1_ps(x);}
  static F load(const float * p) {return _mm512_loadu_ps(p);}
  static void store(float * p, F x) {_mm512_storeu_ps(p, x);}
  static F load_half(const uint16_t * p)
  {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
  }
  static void store_half(uint16_t * p, F x)
  {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), _mm512_cvtps_ph(x, 0));
  }
  static F load_bf16(const uint16_t * p)
  {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static F add(F a, F b) {return _mm512_add_ps(a, b);}
  static F sub(F a, F b) {return _mm512_sub_ps(a, b);}
  static F mul(F a, F b) {return _mm512_mul_ps(a, b);}
  static F div(F a, F b) {return _mm512_div_ps(a, b);}
  static F fma(F a, F b, F c) {return _mm512_fmadd_ps(a, b, c);}
  static F max(F a, F b) {return _mm512_max_ps(a, b);}
  static F min(F a, F b) {return _mm512_min_ps(a, b);}
  static F round(F x) {return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT);}
  static F of_int(I x) {return _mm512_cvtepi32_ps(x);}
  static F power_of_two(F x)
  {
    const I exponent = _mm512_add_epi32(_mm512_cvtps_epi32(x), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
  }
  static F take_first(F x, int count, F rest)
  {
    const unsigned keep = count >= kLanes ? 0xffffu : count <= 0 ? 0u : (1u << count) - 1u;
    return _mm512_mask_blend_ps(static_cast<__mmask16>(keep), rest, x);
  }

  // Fold 16 lanes pairwise: i with i + 8, i + 4, i + 2, i + 1.
  static float sum16(const F * x)
  {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x[0]), upper(x[0]));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
  }
  static float max16(const F * x)
  {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x[0]), upper(x[0]));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
  }
  static __m256 upper(F x)
  {
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
  }

  // Codes of 32 values, rounded to nearest, and their sum.
  static int32_t store_codes(int8_t * codes, const F * x)
  {
    const I low = _mm512_cvtps_epi32(x[0]);
    const I high = _mm512_cvtps_epi32(x[1]);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(codes), _mm512_cvtepi32_epi8(low));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(codes + 16), _mm512_cvtepi32_epi8(high));
    return _mm512_reduce_add_epi32(_mm512_add_epi32(low, high));
  }

  static I four_codes(const int8_t * p)
  {
    int32_t bits;
    std::memcpy(&bits, p, sizeof(bits));
    return _mm512_set1_epi32(bits);
  }

  // Dot products over 32 columns of INT4 codes (0..15): rows M, 32 bytes apart, and
  // panel vectors V.
  template<int M, int V>
  static void dot_int4(
    const uint8_t * lines, const int8_t * codes, const int32_t *,
    I (&result)[M][V])
  {
    const I low_half = _mm512_set1_epi8(15);
    for (int m = 0; m < M; ++m) {
      result[m][0] = _mm512_setzero_si512();
    }
#pragma GCC unroll 4
    for (int line = 0; line < 4; ++line) {
      const I both = _mm512_loadu_si512(lines + line * kLineBytes);
      const I low = _mm512_and_si512(both, low_half);
      const I high = _mm512_and_si512(_mm512_srli_epi16(both, 4), low_half);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const int8_t * eight = codes + m * kCodeGroup + line * 8;
        result[m][0] = _mm512_dpbusd_epi32(result[m][0], low, four_codes(eight));
        result[m][0] = _mm512_dpbusd_epi32(result[m][0], high, four_codes(eight + 4));
      }
    }
  }

  // The same of INT8 codes; row m's activation codes sum to code_sums[m].
  template<int M, int V>
  static void dot_int8(
    const uint8_t * lines, const int8_t * codes, const int32_t * code_sums,
    I (&result)[M][V])
  {
    const I shift = _mm512_set1_epi8(-128);
    for (int m = 0; m < M; ++m) {
      // Undoes the shift of the weights, which the instruction takes as unsigned.
      result[m][0] = _mm512_set1_epi32(-128 * code_sums[m]);
    }
#pragma GCC unroll 8
    for (int line = 0; line < 8; ++line) {
      const I weights = _mm512_xor_si512(_mm512_loadu_si512(lines + line * kLineBytes), shift);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const I four = four_codes(codes + m * kCodeGroup + line * 4);
        result[m][0] = _mm512_dpbusd_epi32(result[m][0], weights, four);
      }
    }
  }

  static I minus_eight(I dot, int32_t code_sum)
  {
    return _mm512_sub_epi32(dot, _mm512_set1_epi32(8 * code_sum));
  }
};

}  // namespace
}  // namespace memspec

#endif  // SIMD_AVX512_HPP_
