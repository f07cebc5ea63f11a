// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// AVX2 with FMA and F16C, and the integer dot product of AVX-VNNI where it is compiled for.

#ifndef SIMD_AVX2_HPP_
#define SIMD_AVX2_HPP_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "panel.hpp"

#if !defined(__AVXVNNI__)
#define MEMSPEC_UNPACKS_WIDE  // see kernel_wide.hpp
#endif

namespace memspec
{
namespace
{

struct Simd
{
  static constexpr int kLanes = 8;
  static constexpr int kVectors = kPanelRows / kLanes;
  static constexpr int kDenseRows = 6;  // whose float sums fit the registers
  using F = __m256;
  using I = __m256i;

  static F zero() {return _mm256_setzero_ps();}
  static F set(float x) {return _mm256_set1_ps(x);}
  static F load(const float * p) {return _mm256_loadu_ps(p);}
  static void store(float * p, F x) {_mm256_storeu_ps(p, x);}
  static F load_half(const uint16_t * p)
  {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
  }
  static void store_half(uint16_t * p, F x)
  {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm256_cvtps_ph(x, 0));
  }
  static F load_bf16(const uint16_t * p)
  {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static F add(F a, F b) {return _mm256_add_ps(a, b);}
  static F sub(F a, F b) {return _mm256_sub_ps(a, b);}
  static F mul(F a, F b) {return _mm256_mul_ps(a, b);}
  static F div(F a, F b) {return _mm256_div_ps(a, b);}
  static F fma(F a, F b, F c) {return _mm256_fmadd_ps(a, b, c);}
  static F max(F a, F b) {return _mm256_max_ps(a, b);}
  static F min(F a, F b) {return _mm256_min_ps(a, b);}
  static F round(F x) {return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);}
  static F of_int(I x) {return _mm256_cvtepi32_ps(x);}

  // 2^x of whole numbers in [-126, 127].
  static F power_of_two(F x)
  {
    const I exponent = _mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  }

  // Lanes below `count` of x, the others of `rest`.
  static F take_first(F x, int count, F rest)
  {
    const I lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const I keep = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane);
    return _mm256_blendv_ps(rest, x, _mm256_castsi256_ps(keep));
  }

  // Codes of 32 values, rounded to nearest, and their sum.
  static int32_t store_codes(int8_t * codes, const F * x)
  {
    const I low = _mm256_packs_epi32(_mm256_cvtps_epi32(x[0]), _mm256_cvtps_epi32(x[1]));
    const I high = _mm256_packs_epi32(_mm256_cvtps_epi32(x[2]), _mm256_cvtps_epi32(x[3]));
    const I order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const I all = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
    _mm256_storeu_si256(reinterpret_cast<I *>(codes), all);
    const I pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), all);
    const I fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    __m128i four = _mm_add_epi32(
      _mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
    four = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    return _mm_cvtsi128_si32(four) + _mm_extract_epi32(four, 1);
  }

  static I four_codes(const int8_t * p)
  {
    int32_t bits;
    std::memcpy(&bits, p, sizeof(bits));
    return _mm256_set1_epi32(bits);
  }
  static I load_codes(const uint8_t * p)
  {
    return _mm256_load_si256(reinterpret_cast<const __m256i *>(p));
  }

  // Fold 16 lanes pairwise: i with i + 8, i + 4, i + 2, i + 1.
  static float sum16(const F * x)
  {
    const F eight = add(x[0], x[1]);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
  }
  static float max16(const F * x)
  {
    const F eight = max(x[0], x[1]);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
  }

  // Keep the compiler from regrouping a sum: it would hold all its terms, beyond the registers.
  static void pin(I * x) {__asm__ ("" : "+x" (*x));}

  // Dot products over 32 columns of INT4 codes (0..15): rows M, 32 bytes apart, and
  // panel vectors V.
  template<int M, int V>
  static void dot_int4(
    const uint8_t * lines, const int8_t * codes, const int32_t *,
    I (&result)[M][V])
  {
    const I low_half = _mm256_set1_epi8(15);
#if defined(__AVXVNNI__)
    for (int m = 0; m < M; ++m) {
      for (int v = 0; v < V; ++v) {
        result[m][v] = _mm256_setzero_si256();
      }
    }
#endif
#pragma GCC unroll 4
    for (int line = 0; line < 4; ++line) {
      I low[V], high[V];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        const I both = load_codes(lines + line * kLineBytes + v * 32);
        low[v] = _mm256_and_si256(both, low_half);
        high[v] = _mm256_and_si256(_mm256_srli_epi16(both, 4), low_half);
      }
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const I first = four_codes(codes + m * kCodeGroup + line * 8);
        const I second = four_codes(codes + m * kCodeGroup + line * 8 + 4);
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) {
#if defined(__AVXVNNI__)
          result[m][v] = _mm256_dpbusd_avx_epi32(result[m][v], low[v], first);
          result[m][v] = _mm256_dpbusd_avx_epi32(result[m][v], high[v], second);
#else
          // 16 products of at most 15 * 127 stay below 2^15.
          const I a = _mm256_maddubs_epi16(low[v], first);
          const I b = _mm256_maddubs_epi16(high[v], second);
          result[m][v] = line == 0 ? _mm256_add_epi16(a, b) :
            _mm256_add_epi16(_mm256_add_epi16(result[m][v], a), b);
#endif
          pin(&result[m][v]);
        }
      }
    }
#if !defined(__AVXVNNI__)
    const I ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        result[m][v] = _mm256_madd_epi16(result[m][v], ones);
      }
    }
#endif
  }

  // The same of INT8 codes; row m's activation codes sum to code_sums[m].
  template<int M, int V>
  static void dot_int8(
    const uint8_t * lines, const int8_t * codes, const int32_t * code_sums,
    I (&result)[M][V])
  {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
#if defined(__AVXVNNI__)
        result[m][v] = _mm256_set1_epi32(-128 * code_sums[m]);  // undoes the shift below
#else
        result[m][v] = _mm256_setzero_si256();
#endif
      }
    }
#if defined(__AVXVNNI__)
    const I shift = _mm256_set1_epi8(-128);
#else
    const I ones = _mm256_set1_epi16(1);
    (void)code_sums;
#endif
#pragma GCC unroll 8
    for (int line = 0; line < 8; ++line) {
      I weights[V], sizes[V];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        weights[v] = load_codes(lines + line * kLineBytes + v * 32);
#if defined(__AVXVNNI__)
        sizes[v] = _mm256_xor_si256(weights[v], shift);
#else
        sizes[v] = _mm256_abs_epi8(weights[v]);
#endif
      }
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const I four = four_codes(codes + m * kCodeGroup + line * 4);
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) {
#if defined(__AVXVNNI__)
          result[m][v] = _mm256_dpbusd_avx_epi32(result[m][v], sizes[v], four);
#else
          // |w| * (sign(w) a): two products of at most 128 * 127 stay below 2^15.
          const I pairs = _mm256_maddubs_epi16(sizes[v], _mm256_sign_epi8(four, weights[v]));
          result[m][v] = _mm256_add_epi32(result[m][v], _mm256_madd_epi16(pairs, ones));
#endif
          pin(&result[m][v]);
        }
      }
    }
  }

  // One code a byte, for many rows: 32 columns of a panel, lines of 4 columns.
  static void unpack_int4(const uint8_t * lines, uint8_t * codes)
  {
    const I low_half = _mm256_set1_epi8(15);
    for (int i = 0; i < 8; ++i) {
      const I both = load_codes(lines + i * 32);
      uint8_t * place = codes + i / 2 * 2 * kLineBytes + i % 2 * 32;
      _mm256_store_si256(reinterpret_cast<I *>(place), _mm256_and_si256(both, low_half));
      _mm256_store_si256(
        reinterpret_cast<I *>(place + kLineBytes),
        _mm256_and_si256(_mm256_srli_epi16(both, 4), low_half));
    }
  }

  // dot_int4 of unpacked codes.
  template<int M, int V>
  static void dot_unpacked(
    const uint8_t * lines, const int8_t * codes, I (&result)[M][V])
  {
#pragma GCC unroll 8
    for (int line = 0; line < 8; ++line) {
      I weights[V];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        weights[v] = load_codes(lines + line * kLineBytes + v * 32);
      }
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const I four = four_codes(codes + m * kCodeGroup + line * 4);
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) {
          const I pairs = _mm256_maddubs_epi16(weights[v], four);
          result[m][v] = line == 0 ? pairs : _mm256_add_epi16(result[m][v], pairs);
          pin(&result[m][v]);
        }
      }
    }
    const I ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        result[m][v] = _mm256_madd_epi16(result[m][v], ones);
      }
    }
  }

  static I minus_eight(I dot, int32_t code_sum)
  {
    return _mm256_sub_epi32(dot, _mm256_set1_epi32(8 * code_sum));
  }
};

}  // namespace
}  // namespace memspec

#endif  // SIMD_AVX2_HPP_
