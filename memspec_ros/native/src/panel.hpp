// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// The packed form of a matrix: panels of 16 rows, so that a vector register holds rows side by
// side and no sum has to cross lanes.
//
// INT4, per panel and group of columns: lines of 64 bytes, one for 8 columns; byte 4 * r + j of a
// line has row r's code of column j in its low and of column 4 + j in its high half. Then 16
// scales, then 16 minima (if stored). INT8: the same with lines of 4 columns, a byte a code.
// Floats, per panel: 16 values a column.

#ifndef PANEL_HPP_
#define PANEL_HPP_

#include <cstddef>
#include <cstdint>

#include "memspec_native.h"

namespace memspec
{

constexpr int kPanelRows = 16;
constexpr int kLineBytes = 64;
constexpr int kCodeGroup = 32;  // columns of an activation that share a scale

static inline int num_panels(const MsMatrix & m) {return (m.rows + kPanelRows - 1) / kPanelRows;}

static inline bool is_coded(const MsMatrix & m) {return m.kind == MS_INT8 || m.kind == MS_INT4;}

static inline size_t scale_bytes(const MsMatrix & m) {return m.scale_kind == MS_FP16 ? 2 : 4;}

static inline size_t element_bytes(int32_t kind) {return kind == MS_FP32 ? 4 : 2;}

static inline size_t code_bytes(const MsMatrix & m)
{
  return static_cast<size_t>(m.group) * kPanelRows / (m.kind == MS_INT4 ? 2 : 1);
}

// Bytes of one group of columns in a panel.
static inline size_t group_bytes(const MsMatrix & m)
{
  const size_t numbers = m.offset == MS_MINIMUM ? 2 : 1;
  return code_bytes(m) + numbers * kPanelRows * scale_bytes(m);
}

static inline size_t panel_bytes(const MsMatrix & m)
{
  if (!is_coded(m)) {
    return kPanelRows * element_bytes(m.kind) * m.columns;
  }
  return static_cast<size_t>(m.columns / m.group) * group_bytes(m);
}

static inline const uint8_t * panel_data(const MsMatrix & m, int panel)
{
  return static_cast<const uint8_t *>(m.data) + panel_bytes(m) * panel;
}

// Whether the kernels can compute with such a matrix.
static inline bool is_valid_shape(const MsMatrix & m)
{
  if (m.rows < 1 || m.columns < 1) {
    return false;
  }
  if (!is_coded(m)) {
    return m.kind == MS_FP32 || m.kind == MS_FP16 || m.kind == MS_BF16;
  }
  const bool offset_ok = m.offset == MS_NO_OFFSET ||
    (m.kind == MS_INT4 && (m.offset == MS_MINIMUM || m.offset == MS_CENTRED));
  return offset_ok && (m.scale_kind == MS_FP32 || m.scale_kind == MS_FP16) &&
         m.group >= kCodeGroup && m.group % kCodeGroup == 0 && m.columns % m.group == 0;
}

}  // namespace memspec

#endif  // PANEL_HPP_
