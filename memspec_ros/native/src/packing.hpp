// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PACKING_HPP_
#define PACKING_HPP_

#include "memspec_native.h"

namespace memspec
{

// Write the float32 values of one row of a packed matrix.
void unpack_row(const MsMatrix & m, int row, float * values);

}  // namespace memspec

#endif  // PACKING_HPP_
