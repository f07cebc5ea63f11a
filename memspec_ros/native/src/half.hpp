// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// float16 and bfloat16 without hardware support: for packing and for the plain kernels.

#ifndef HALF_HPP_
#define HALF_HPP_

#include <cstdint>
#include <cstring>

namespace memspec
{

static inline float float_of_bits(uint32_t bits)
{
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

static inline uint32_t bits_of_float(float value)
{
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static inline float float_of_bf16(uint16_t bits) {return float_of_bits(uint32_t{bits} << 16);}

static inline float float_of_half(uint16_t half)
{
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity and NaN
    return float_of_bits(sign | 0x7f800000u | (magnitude << 13 & 0x7fe000u));
  }
  // The exponent is moved by a multiplication, which is exact and serves subnormals too.
  const float value = float_of_bits(magnitude << 13) * float_of_bits(0x77800000u);
  return float_of_bits(sign | bits_of_float(value));
}

// Round to nearest, ties to even, as the hardware does.
static inline uint16_t half_of_float(float value)
{
  const uint32_t bits = bits_of_float(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u);
  }
  if (magnitude >= 0x477ff000u) {  // rounds to at least 65520
    return static_cast<uint16_t>(sign | 0x7c00u);
  }
  if (magnitude < 0x38800000u) {  // below the smallest normal: the adder rounds for us
    const float shifted = float_of_bits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bits_of_float(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace memspec

#endif  // HALF_HPP_
