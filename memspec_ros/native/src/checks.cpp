// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// What the decoder asks of its arguments.

#include <algorithm>

#include "decoder.hpp"

namespace memspec
{
namespace
{

bool has_shape(const MsMatrix & m, int rows, int columns)
{
  return is_valid_shape(m) && m.data && m.rows == rows && m.columns == columns &&
         reinterpret_cast<uintptr_t>(m.data) % 32 == 0;
}

bool is_order(const int32_t * order, int columns)
{
  for (int i = 0; order && i < columns; ++i) {
    if (order[i] < 0 || order[i] >= columns) {
      return false;
    }
  }
  return true;
}

bool is_layer_valid(const MsDecoderConfig & c, const MsLayer & layer)
{
  const int query = c.num_heads * c.head_dim;
  const int kv = c.num_kv_heads * c.head_dim;
  return layer.attention_norm && layer.mlp_norm && has_shape(layer.query, query, c.hidden_size) &&
         has_shape(layer.key, kv, c.hidden_size) && has_shape(layer.value, kv, c.hidden_size) &&
         has_shape(layer.output, c.hidden_size, query) &&
         has_shape(layer.gate, c.intermediate_size, c.hidden_size) &&
         has_shape(layer.up, c.intermediate_size, c.hidden_size) &&
         has_shape(layer.down, c.hidden_size, c.intermediate_size) &&
         is_order(layer.attention_order, c.hidden_size) &&
         is_order(layer.output_order, query) && is_order(layer.mlp_order, c.hidden_size) &&
         is_coded(layer.query) == is_coded(layer.key) &&
         is_coded(layer.query) == is_coded(layer.value) &&
         is_coded(layer.gate) == is_coded(layer.up);
}

}  // namespace

int32_t check_config(const MsDecoderConfig & c)
{
  if (c.num_layers < 1 || c.num_kv_heads < 1 || c.num_heads < c.num_kv_heads ||
    c.num_heads % c.num_kv_heads || c.context_tokens < 1 || c.max_width < 1 || !c.layers ||
    !c.cosines || !c.sines || (c.kv_kind != MS_FP32 && c.kv_kind != MS_FP16))
  {
    return MS_BAD_ARGUMENT;
  }
  const int mixed = c.num_heads / c.num_kv_heads * c.head_dim;  // columns of a KV head's queries
  if (c.hidden_size % kCodeGroup || c.intermediate_size % kCodeGroup || c.head_dim < 16 ||
    c.head_dim % kPanelRows || c.head_dim > 512 || mixed % kCodeGroup)
  {
    return MS_UNSUPPORTED;
  }
  for (int i = 0; i < c.num_layers; ++i) {
    if (!is_layer_valid(c, c.layers[i])) {
      return MS_BAD_ARGUMENT;
    }
  }
  const bool embedding_ok = !c.embedding.data || (is_valid_shape(c.embedding) &&
    c.embedding.columns == c.hidden_size);
  const bool head_ok = !c.head.data || has_shape(c.head, c.head.rows, c.hidden_size);
  return embedding_ok && head_ok ? MS_OK : MS_BAD_ARGUMENT;
}

namespace
{

bool positions_fit(const MsDecoderConfig & c, const MsPass & p)
{
  const int room = std::min(p.kv_capacity, c.context_tokens);
  if (!p.slots) {
    return p.position >= 0 && p.position <= room - p.width;
  }
  for (int i = 0; i < p.width; ++i) {
    if (!p.positions || p.slots[i] < 0 || p.slots[i] >= p.num_slots || p.positions[i] < 0 ||
      p.positions[i] >= room)
    {
      return false;
    }
  }
  return true;
}

}  // namespace

int32_t check_pass(const MsDecoderConfig & c, const MsPass & p)
{
  const bool has_input = p.token_ids ? c.embedding.data != nullptr : p.embeddings != nullptr;
  if (!has_input || !p.keys || !p.values || p.width < 1 || p.width > c.max_width ||
    p.kv_capacity % kChunk || p.num_logits < 0 || p.num_logits > p.width ||
    !positions_fit(c, p) ||
    (p.num_logits > 0 && (!c.head.data || (!p.logits && !p.best_ids))) ||
    (p.hidden && (p.hidden_capacity < p.width || p.hidden_start < 0)))
  {
    return MS_BAD_ARGUMENT;
  }
  for (int i = 0; p.token_ids && i < p.width; ++i) {
    if (p.token_ids[i] < 0 || p.token_ids[i] >= c.embedding.rows) {
      return MS_BAD_ARGUMENT;
    }
  }
  return MS_OK;
}

}  // namespace memspec
