// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// Arm NEON with the dot product of Armv8.2 (Cortex-A76 and A78AE, Neoverse, Apple).

#ifndef SIMD_NEON_HPP_
#define SIMD_NEON_HPP_

#include <arm_neon.h>

#include <cstdint>

#include "panel.hpp"

namespace memspec
{
namespace
{

struct Simd
{
  static constexpr int kLanes = 4;
  static constexpr int kVectors = kPanelRows / kLanes;
  static constexpr int kDenseRows = 4;  // whose float sums fit the registers
  using F = float32x4_t;
  using I = int32x4_t;

  static F zero() {return vdupq_n_f32(0.0f);}
  static F set(float x) {return vdupq_n_f32(x);}
  static F load(const float * p) {return vld1q_f32(p);}
  static void store(float * p, F x) {vst1q_f32(p, x);}
  static F load_half(const uint16_t * p)
  {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
  }
  static void store_half(uint16_t * p, F x)
  {
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x)));
  }
  static F load_bf16(const uint16_t * p)
  {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
  }
  static F add(F a, F b) {return vaddq_f32(a, b);}
  static F sub(F a, F b) {return vsubq_f32(a, b);}
  static F mul(F a, F b) {return vmulq_f32(a, b);}
  static F div(F a, F b) {return vdivq_f32(a, b);}
  static F fma(F a, F b, F c) {return vfmaq_f32(c, a, b);}
  static F max(F a, F b) {return vmaxq_f32(a, b);}
  static F min(F a, F b) {return vminq_f32(a, b);}
  static F round(F x) {return vrndnq_f32(x);}
  static F of_int(I x) {return vcvtq_f32_s32(x);}
  static F power_of_two(F x)
  {
    const I exponent = vaddq_s32(vcvtnq_s32_f32(x), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
  }
  static F take_first(F x, int count, F rest)
  {
    static constexpr int32_t kLane[4] = {0, 1, 2, 3};
    return vbslq_f32(vcltq_s32(vld1q_s32(kLane), vdupq_n_s32(count)), x, rest);
  }

  // Fold 16 lanes pairwise: i with i + 8, i + 4, i + 2, i + 1.
  static float sum16(const F * x)
  {
    const F four = add(add(x[0], x[2]), add(x[1], x[3]));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
  }
  static float max16(const F * x)
  {
    return vmaxvq_f32(max(max(x[0], x[2]), max(x[1], x[3])));
  }

  // Codes of 32 values, rounded to nearest, and their sum.
  static int32_t store_codes(int8_t * codes, const F * x)
  {
    int32_t sum = 0;
    for (int part = 0; part < 2; ++part, x += 4) {
      const int16x8_t low = vcombine_s16(
        vqmovn_s32(vcvtnq_s32_f32(x[0])), vqmovn_s32(vcvtnq_s32_f32(x[1])));
      const int16x8_t high = vcombine_s16(
        vqmovn_s32(vcvtnq_s32_f32(x[2])), vqmovn_s32(vcvtnq_s32_f32(x[3])));
      vst1q_s8(codes + 16 * part, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
      sum += vaddvq_s16(vaddq_s16(low, high));
    }
    return sum;
  }

  // Dot products over 32 columns of INT4 codes (0..15): rows M, 32 bytes apart, and
  // panel vectors V.
  template<int M, int V>
  static void dot_int4(
    const uint8_t * lines, const int8_t * codes, const int32_t *,
    I (&result)[M][V])
  {
    clear(result);
    for (int half = 0; half < 2; ++half) {
      int8x16_t activations[M];
      for (int m = 0; m < M; ++m) {
        activations[m] = vld1q_s8(codes + m * kCodeGroup + half * 16);
      }
      for (int v = 0; v < V; ++v) {
        const uint8_t * place = lines + half * 2 * kLineBytes + v * 16;
        const uint8x16_t a = vld1q_u8(place);
        const uint8x16_t b = vld1q_u8(place + kLineBytes);
        for (int m = 0; m < M; ++m) {
          I dot = result[m][v];
          dot = vdotq_laneq_s32(dot, low(a), activations[m], 0);
          dot = vdotq_laneq_s32(dot, high(a), activations[m], 1);
          dot = vdotq_laneq_s32(dot, low(b), activations[m], 2);
          result[m][v] = vdotq_laneq_s32(dot, high(b), activations[m], 3);
        }
      }
    }
  }

  // The same of INT8 codes.
  template<int M, int V>
  static void dot_int8(
    const uint8_t * lines, const int8_t * codes, const int32_t *,
    I (&result)[M][V])
  {
    clear(result);
    for (int half = 0; half < 2; ++half) {
      int8x16_t activations[M];
      for (int m = 0; m < M; ++m) {
        activations[m] = vld1q_s8(codes + m * kCodeGroup + half * 16);
      }
      for (int v = 0; v < V; ++v) {
        const int8_t * place =
          reinterpret_cast<const int8_t *>(lines) + half * 4 * kLineBytes + v * 16;
        for (int m = 0; m < M; ++m) {
          I dot = result[m][v];
          dot = vdotq_laneq_s32(dot, vld1q_s8(place), activations[m], 0);
          dot = vdotq_laneq_s32(dot, vld1q_s8(place + kLineBytes), activations[m], 1);
          dot = vdotq_laneq_s32(dot, vld1q_s8(place + 2 * kLineBytes), activations[m], 2);
          result[m][v] =
            vdotq_laneq_s32(dot, vld1q_s8(place + 3 * kLineBytes), activations[m], 3);
        }
      }
    }
  }

  static I minus_eight(I dot, int32_t code_sum)
  {
    return vsubq_s32(dot, vdupq_n_s32(8 * code_sum));
  }

private:
  template<int M, int V>
  static void clear(I (&result)[M][V])
  {
    for (int m = 0; m < M; ++m) {
      for (int v = 0; v < V; ++v) {
        result[m][v] = vdupq_n_s32(0);
      }
    }
  }
  static int8x16_t low(uint8x16_t both)
  {
    return vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(15)));
  }
  static int8x16_t high(uint8x16_t both) {return vreinterpretq_s8_u8(vshrq_n_u8(both, 4));}
};

}  // namespace
}  // namespace memspec

#endif  // SIMD_NEON_HPP_
