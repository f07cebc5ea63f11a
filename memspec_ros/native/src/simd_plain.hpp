// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// Portable C++: four lanes by the compiler's vector extension, no fused multiply-add.

#ifndef SIMD_PLAIN_HPP_
#define SIMD_PLAIN_HPP_

#include <cstdint>
#include <cstring>

#include "half.hpp"
#include "panel.hpp"

namespace memspec
{
namespace
{

struct Simd
{
  static constexpr int kLanes = 4;
  static constexpr int kVectors = kPanelRows / kLanes;
  static constexpr int kDenseRows = 2;  // whose float sums fit the registers
  typedef float F __attribute__((vector_size(16)));
  typedef int32_t I __attribute__((vector_size(16)));

  static F set(float x) {return F{x, x, x, x};}
  static F zero() {return set(0.0f);}
  static F load(const float * p)
  {
    F x;
    std::memcpy(&x, p, sizeof(x));
    return x;
  }
  static void store(float * p, F x) {std::memcpy(p, &x, sizeof(x));}
  static F load_half(const uint16_t * p)
  {
    return F{float_of_half(p[0]), float_of_half(p[1]), float_of_half(p[2]), float_of_half(p[3])};
  }
  static void store_half(uint16_t * p, F x)
  {
    for (int i = 0; i < kLanes; ++i) {
      p[i] = half_of_float(x[i]);
    }
  }
  static F load_bf16(const uint16_t * p)
  {
    return F{float_of_bf16(p[0]), float_of_bf16(p[1]), float_of_bf16(p[2]), float_of_bf16(p[3])};
  }
  static F add(F a, F b) {return a + b;}
  static F sub(F a, F b) {return a - b;}
  static F mul(F a, F b) {return a * b;}
  static F div(F a, F b) {return a / b;}
  static F fma(F a, F b, F c) {return a * b + c;}
  static F max(F a, F b) {return select(a > b, a, b);}
  static F min(F a, F b) {return select(a < b, a, b);}
  // Adding 1.5 * 2^23 leaves no bits behind the point; right for |x| < 2^22.
  static F round(F x) {return (x + set(12582912.0f)) - set(12582912.0f);}
  static F of_int(I x)
  {
    return F{static_cast<float>(x[0]), static_cast<float>(x[1]), static_cast<float>(x[2]),
      static_cast<float>(x[3])};
  }
  static F power_of_two(F x)
  {
    const I exponent = {
      static_cast<int32_t>(x[0]), static_cast<int32_t>(x[1]), static_cast<int32_t>(x[2]),
      static_cast<int32_t>(x[3])};
    return bits_to_float((exponent + 127) << 23);
  }
  static F take_first(F x, int count, F rest)
  {
    const I lane = {0, 1, 2, 3};
    return select(lane < I{count, count, count, count}, x, rest);
  }

  // Fold 16 lanes pairwise: i with i + 8, i + 4, i + 2, i + 1.
  static float sum16(const F * x)
  {
    const F four = add(add(x[0], x[2]), add(x[1], x[3]));
    return (four[0] + four[2]) + (four[1] + four[3]);
  }
  static float max16(const F * x)
  {
    const F four = max(max(x[0], x[2]), max(x[1], x[3]));
    const float a = four[0] > four[2] ? four[0] : four[2];
    const float b = four[1] > four[3] ? four[1] : four[3];
    return a > b ? a : b;
  }

  // Codes of 32 values, rounded to nearest, and their sum.
  static int32_t store_codes(int8_t * codes, const F * x)
  {
    int32_t sum = 0;
    for (int i = 0; i < kCodeGroup; ++i) {
      const int32_t code = static_cast<int32_t>(round(x[i / kLanes])[i % kLanes]);
      codes[i] = static_cast<int8_t>(code);
      sum += code;
    }
    return sum;
  }

  template<int M, int V>
  static void dot_int4(
    const uint8_t * lines, const int8_t * codes, const int32_t *,
    I (&result)[M][V])
  {
    for (int m = 0; m < M; ++m) {
      int32_t dots[V * kLanes] = {};
      for (int line = 0; line < 4; ++line) {
        const int8_t * eight = codes + m * kCodeGroup + line * 8;
        for (int r = 0; r < V * kLanes; ++r) {
          const uint8_t * both = lines + line * kLineBytes + 4 * r;
          for (int j = 0; j < 4; ++j) {
            dots[r] += (both[j] & 15) * eight[j] + (both[j] >> 4) * eight[4 + j];
          }
        }
      }
      std::memcpy(result[m], dots, sizeof(dots));
    }
  }

  template<int M, int V>
  static void dot_int8(
    const uint8_t * lines, const int8_t * codes, const int32_t *,
    I (&result)[M][V])
  {
    for (int m = 0; m < M; ++m) {
      int32_t dots[V * kLanes] = {};
      for (int line = 0; line < 8; ++line) {
        const int8_t * four = codes + m * kCodeGroup + line * 4;
        for (int r = 0; r < V * kLanes; ++r) {
          const uint8_t * weights = lines + line * kLineBytes + 4 * r;
          for (int j = 0; j < 4; ++j) {
            dots[r] += static_cast<int8_t>(weights[j]) * four[j];
          }
        }
      }
      std::memcpy(result[m], dots, sizeof(dots));
    }
  }

  static I minus_eight(I dot, int32_t code_sum) {return dot - 8 * code_sum;}

private:
  static F bits_to_float(I bits)
  {
    F x;
    std::memcpy(&x, &bits, sizeof(x));
    return x;
  }
  static F select(I mask, F yes, F no)
  {
    I a, b;
    std::memcpy(&a, &yes, sizeof(a));
    std::memcpy(&b, &no, sizeof(b));
    return bits_to_float((mask & a) | (~mask & b));
  }
};

}  // namespace
}  // namespace memspec

#endif  // SIMD_PLAIN_HPP_
