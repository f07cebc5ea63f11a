// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// Fills the table for the vector type `Simd` of the including unit. Everything up to here has
// internal linkage: code of one instruction set must never be linked in place of another's.

#ifndef KERNEL_TABLE_HPP_
#define KERNEL_TABLE_HPP_

#include "kernel_attention.hpp"
#include "kernel_math.hpp"
#include "kernel_products.hpp"
#include "kernel_window.hpp"

namespace memspec
{
namespace
{

constexpr Kernels make_table(const char * name)
{
  return {name, quantise, rms_norm, linear, gated, rotate, store_key, store_value, attend, merge,
    finish, attend_window, dot};
}

}  // namespace
}  // namespace memspec

#endif  // KERNEL_TABLE_HPP_
