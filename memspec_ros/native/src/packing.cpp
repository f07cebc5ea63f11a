// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// Brings matrices into panels (panel.hpp) and reads rows back out of them.

#include "packing.hpp"

#include <cstring>

#include "half.hpp"
#include "panel.hpp"

namespace memspec
{
namespace
{

void put_number(const MsMatrix & m, uint8_t * numbers, int row, float value)
{
  if (m.scale_kind == MS_FP16) {
    const uint16_t half = half_of_float(value);
    std::memcpy(numbers + 2 * row, &half, sizeof(half));
  } else {
    std::memcpy(numbers + 4 * row, &value, sizeof(value));
  }
}

float get_number(const MsMatrix & m, const uint8_t * numbers, int row)
{
  if (m.scale_kind == MS_FP16) {
    uint16_t half;
    std::memcpy(&half, numbers + 2 * row, sizeof(half));
    return float_of_half(half);
  }
  float value;
  std::memcpy(&value, numbers + 4 * row, sizeof(value));
  return value;
}

// Where the code of a column lies in its group: byte and shift.
struct CodePlace
{
  size_t byte;
  int shift;
};

CodePlace code_place(const MsMatrix & m, int row, int column)
{
  if (m.kind == MS_INT8) {
    return {static_cast<size_t>(column / 4 * kLineBytes + 4 * row + column % 4), 0};
  }
  return {static_cast<size_t>(column / 8 * kLineBytes + 4 * row + column % 4), column & 4};
}

void pack_group(
  const MsMatrix & m, int row, const uint8_t * codes, float scale, const float * minimum,
  uint8_t * group)
{
  uint8_t * place = group + 4 * row;
  if (m.kind == MS_INT8) {
    for (int column = 0; column < m.group; column += 4, place += kLineBytes) {
      std::memcpy(place, codes + column, 4);
    }
  } else {
    for (int column = 0; column < m.group; column += 8, place += kLineBytes) {
      for (int i = 0; i < 4; ++i) {
        place[i] = static_cast<uint8_t>(codes[column + i] | codes[column + 4 + i] << 4);
      }
    }
  }
  uint8_t * numbers = group + code_bytes(m);
  put_number(m, numbers, row, scale);
  if (minimum) {
    put_number(m, numbers + kPanelRows * scale_bytes(m), row, *minimum);
  }
}

void unpack_group(const MsMatrix & m, int row, const uint8_t * group, float * values)
{
  const uint8_t * numbers = group + code_bytes(m);
  const float scale = get_number(m, numbers, row);
  const float minimum = m.offset == MS_MINIMUM ?
    get_number(m, numbers + kPanelRows * scale_bytes(m), row) :
    m.offset == MS_CENTRED ? -8.0f * scale : 0.0f;
  for (int column = 0; column < m.group; ++column) {
    const CodePlace place = code_place(m, row, column);
    const int code = m.kind == MS_INT8 ? static_cast<int8_t>(group[place.byte]) :
      group[place.byte] >> place.shift & 15;
    values[column] = static_cast<float>(code) * scale + minimum;
  }
}

float dense_value(const MsMatrix & m, const uint8_t * data, size_t index)
{
  if (m.kind == MS_FP32) {
    float value;
    std::memcpy(&value, data + 4 * index, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, data + 2 * index, sizeof(bits));
  return m.kind == MS_FP16 ? float_of_half(bits) : float_of_bf16(bits);
}

}  // namespace

void unpack_row(const MsMatrix & m, int row, float * values)
{
  const uint8_t * panel = panel_data(m, row / kPanelRows);
  const int place = row % kPanelRows;
  if (is_coded(m)) {
    for (int column = 0; column < m.columns; column += m.group, panel += group_bytes(m)) {
      unpack_group(m, place, panel, values + column);
    }
    return;
  }
  for (int column = 0; column < m.columns; ++column) {
    values[column] = dense_value(m, panel, static_cast<size_t>(column) * kPanelRows + place);
  }
}

}  // namespace memspec

using memspec::kPanelRows;

extern "C" {

size_t memspec_packed_bytes(const MsMatrix * shape)
{
  if (!shape || !memspec::is_valid_shape(*shape)) {
    return 0;
  }
  return memspec::panel_bytes(*shape) * memspec::num_panels(*shape);
}

int32_t memspec_pack_grouped(
  const MsMatrix * shape, const uint8_t * codes, const float * scales, const float * minima,
  void * packed)
{
  const size_t bytes = memspec_packed_bytes(shape);
  if (!bytes || !memspec::is_coded(*shape) || !codes || !scales || !packed ||
    (shape->offset == MS_MINIMUM) != (minima != nullptr))
  {
    return MS_BAD_ARGUMENT;
  }
  if (shape->rows % kPanelRows) {
    // Rows that the last panel has beyond the matrix.
    const size_t last = memspec::panel_bytes(*shape);
    std::memset(static_cast<uint8_t *>(packed) + bytes - last, 0, last);
  }
  const int groups = shape->columns / shape->group;
  for (int row = 0; row < shape->rows; ++row) {
    uint8_t * panel = static_cast<uint8_t *>(packed) +
      memspec::panel_bytes(*shape) * (row / kPanelRows);
    for (int group = 0; group < groups; ++group) {
      const size_t index = static_cast<size_t>(row) * groups + group;
      memspec::pack_group(
        *shape, row % kPanelRows, codes + index * shape->group, scales[index],
        minima ? minima + index : nullptr, panel + memspec::group_bytes(*shape) * group);
    }
  }
  return MS_OK;
}

int32_t memspec_pack_dense(const MsMatrix * shape, const void * values, void * packed)
{
  const size_t bytes = memspec_packed_bytes(shape);
  if (!bytes || memspec::is_coded(*shape) || !values || !packed) {
    return MS_BAD_ARGUMENT;
  }
  std::memset(packed, 0, bytes);
  const size_t size = memspec::element_bytes(shape->kind);
  for (int row = 0; row < shape->rows; ++row) {
    const uint8_t * source =
      static_cast<const uint8_t *>(values) + size * shape->columns * row;
    uint8_t * panel = static_cast<uint8_t *>(packed) +
      memspec::panel_bytes(*shape) * (row / kPanelRows) + size * (row % kPanelRows);
    for (int column = 0; column < shape->columns; ++column) {
      std::memcpy(panel + size * kPanelRows * column, source + size * column, size);
    }
  }
  return MS_OK;
}

int32_t memspec_unpack_row(const MsMatrix * matrix, int32_t row, float * values)
{
  if (!memspec_packed_bytes(matrix) || !matrix->data || row < 0 || row >= matrix->rows ||
    !values)
  {
    return MS_BAD_ARGUMENT;
  }
  memspec::unpack_row(*matrix, row, values);
  return MS_OK;
}

}  // extern "C"
