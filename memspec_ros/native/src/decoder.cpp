// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0

#include "decoder.hpp"

#include <algorithm>
#include <cmath>

#include "packing.hpp"

namespace memspec
{

Decoder::Decoder(const MsDecoderConfig & config, ThreadPool & pool)
: config_(config), layers_(config.layers, config.layers + config.num_layers), pool_(pool),
  group_(config.num_heads / config.num_kv_heads),
  head_stride_((config.num_heads + 2 * config.num_kv_heads) * config.head_dim),
  states_(static_cast<size_t>(config.max_width) * config.hidden_size),
  heads_(static_cast<size_t>(config.max_width) * head_stride_),
  normed_(config.max_width, config.hidden_size),
  mixed_(config.max_width, config.num_heads * config.head_dim),
  gated_(config.max_width, config.intermediate_size),
  chunks_done_(config.num_kv_heads)
{
  const size_t chunks = (config.context_tokens + kChunk - 1) / kChunk;
  partials_ = Array<float>(chunks * config.num_heads * kNarrow * config.head_dim);
  stats_ = Array<float>(chunks * config.num_heads * kNarrow * 2);
  const int queries = std::max(kNarrow, kWideRows) * group_;
  for (int thread = 0; thread < pool.num_threads(); ++thread) {
    Scratch scratch;
    scratch.normed = RowsBuffer(kNarrow, config.hidden_size);
    scratch.tile = Array<float>(static_cast<size_t>(config.max_width) * kPanelRows);
    scratch.partials = Array<float>(static_cast<size_t>(2 * queries) * config.head_dim);
    scratch.stats = Array<float>(4 * queries);
    scratch.queries = Array<const float *>(queries);
    scratch.limits = Array<int>(queries);
    scratch.views = Array<PartialView>(queries);
    scratch.unordered =
      Array<float>(std::max(config.hidden_size, config.num_heads * config.head_dim));
    scratch.best = Array<float>(config.max_width);
    scratch.best_ids = Array<int32_t>(config.max_width);
    scratch_.push_back(std::move(scratch));
  }
}

size_t Decoder::bytes() const
{
  size_t sum = states_.bytes() + heads_.bytes() + normed_.bytes() + mixed_.bytes() +
    gated_.bytes() + partials_.bytes() + stats_.bytes();
  for (const Scratch & s : scratch_) {
    sum += s.normed.bytes() + s.tile.bytes() + s.partials.bytes() + s.stats.bytes() +
      s.unordered.bytes() + s.best.bytes() + s.best_ids.bytes();
  }
  return sum;
}

int32_t Decoder::forward(const MsPass & pass)
{
  const int32_t error = check_pass(config_, pass);
  if (error != MS_OK) {
    return error;
  }
  if (!pool_.acquire()) {
    return MS_BUSY;
  }
  pass_ = pass;
  kernels_ = &kernels();
  forget_best();
  pool_.run(&Decoder::enter, this, pass.width);
  pool_.release();
  return MS_OK;
}

// A thread that comes too late for the head leaves nothing there.
void Decoder::forget_best()
{
  for (Scratch & scratch : scratch_) {
    std::fill_n(scratch.best.get(), pass_.num_logits, -INFINITY);
    std::fill_n(scratch.best_ids.get(), pass_.num_logits, 0);
  }
}

void Decoder::enter(void * self, int thread) {static_cast<Decoder *>(self)->run(thread);}

void Decoder::run(int thread)
{
  const int num_heads = config_.num_heads + 2 * config_.num_kv_heads;
  embed(thread);
  pool_.barrier(thread, is_narrow() ? num_heads : pass_.width);
  for (int index = 0; index < config_.num_layers; ++index) {
    const MsLayer & layer = layers_[index];
    project(
      thread, layer, index,
      normed(
        thread, layer.attention_norm, layer.attention_order, 0, is_coded(layer.query),
        num_heads));
    pool_.barrier(thread, attend_units());
    attend(thread, index, is_coded(layer.output) && !layer.output_order);
    if (layer.output_order) {
      pool_.barrier(thread, pass_.width);
      order_mixed(thread, layer);
    }
    pool_.barrier(thread, num_panels(layer.output));
    add_linear(thread, layer.output, mixed_.rows());
    const int gate_units = config_.intermediate_size / (2 * kPanelRows);
    pool_.barrier(thread, is_narrow() ? gate_units : pass_.width);
    gate_up(
      thread, layer,
      normed(thread, layer.mlp_norm, layer.mlp_order, 0, is_coded(layer.gate), gate_units));
    pool_.barrier(thread, num_panels(layer.down));
    add_linear(thread, layer.down, gated_.rows());
    const bool last = index + 1 == config_.num_layers;
    pool_.barrier(thread, !is_narrow() ? pass_.width : last ? head_units() : num_heads);
  }
  finish(thread);
}

void Decoder::embed(int thread)
{
  int row;
  while (pool_.claim(thread, &row)) {
    if (pass_.token_ids) {
      unpack_row(config_.embedding, pass_.token_ids[row], state(row));
    } else {
      const float * given = pass_.embeddings + static_cast<size_t>(row) * config_.hidden_size;
      std::copy(given, given + config_.hidden_size, state(row));
    }
  }
}

// The normed states, with codes from row `first_coded` on where the next matrix needs them. In a
// narrow pass every thread makes its own, which is cheaper than waiting for one another.
Rows Decoder::normed(
  int thread, const float * weight, const int32_t * order, int first_coded, bool coded,
  int next_units)
{
  if (is_narrow()) {
    const Rows rows = scratch_[thread].normed.rows();
    const bool is_last = weight == config_.final_norm;  // these states stay as they are
    for (int row = 0; row < pass_.width && (is_last || pool_.is_current(thread)); ++row) {
      norm_row(thread, rows, row, weight, order, coded && row >= first_coded);
    }
    return rows;
  }
  const Rows rows = normed_.rows();
  int row;
  while (pool_.claim(thread, &row)) {
    norm_row(thread, rows, row, weight, order, coded && row >= first_coded);
  }
  pool_.barrier(thread, next_units);
  return rows;
}

void Decoder::norm_row(
  int thread, const Rows & rows, int row, const float * weight, const int32_t * order,
  bool coded)
{
  const Rows place = rows.from(row);
  kernels_->rms_norm(
    state(row), weight, config_.norm_epsilon, config_.hidden_size, place.values);
  put_in_order(thread, place.values, order, config_.hidden_size);
  if (coded) {
    kernels_->quantise(place, config_.hidden_size);
  }
}

// Values in the order of a matrix's columns; nothing without an order.
void Decoder::put_in_order(int thread, float * values, const int32_t * order, int columns)
{
  if (!order) {
    return;
  }
  float * unordered = scratch_[thread].unordered.get();
  std::copy(values, values + columns, unordered);
  for (int column = 0; column < columns; ++column) {
    values[column] = unordered[order[column]];
  }
}

void Decoder::order_mixed(int thread, const MsLayer & layer)
{
  const int columns = config_.num_heads * config_.head_dim;
  int row;
  while (pool_.claim(thread, &row)) {
    const Rows place = mixed_.rows().from(row);
    put_in_order(thread, place.values, layer.output_order, columns);
    if (is_coded(layer.output)) {
      kernels_->quantise(place, columns);
    }
  }
}

void Decoder::project(int thread, const MsLayer & layer, int index, const Rows & rows)
{
  int unit;
  while (pool_.claim(thread, &unit)) {
    project_head(layer, index, rows, unit);
  }
}

// One head of queries, keys or values: projection, rotation, and its place in the KV cache.
void Decoder::project_head(const MsLayer & layer, int index, const Rows & rows, int unit)
{
  const int dim = config_.head_dim;
  const bool is_query = unit < config_.num_heads;
  const bool is_key = !is_query && unit < config_.num_heads + config_.num_kv_heads;
  const MsMatrix & matrix = is_query ? layer.query : is_key ? layer.key : layer.value;
  const float * bias = is_query ? layer.query_bias : is_key ? layer.key_bias : layer.value_bias;
  const int head = is_query ? unit : (unit - config_.num_heads) % config_.num_kv_heads;
  float * values = heads_.get() + static_cast<size_t>(unit - head) * dim;
  for (int panel = head * dim / kPanelRows; panel < (head + 1) * dim / kPanelRows; ++panel) {
    kernels_->linear(matrix, rows, pass_.width, panel, {values, head_stride_, bias, false});
  }
  const float scale = is_query ? 1.0f / std::sqrt(static_cast<float>(dim)) : 1.0f;
  for (int row = 0; row < pass_.width; ++row) {
    float * place = values + static_cast<size_t>(row) * head_stride_ + head * dim;
    const int position = position_of(row);
    const KvHead kv = is_query ? KvHead{} : kv_head_of(index, head, row);
    if (is_query || is_key) {
      const ptrdiff_t angles = ptrdiff_t{position} * (dim / 2);
      kernels_->rotate(place, config_.cosines + angles, config_.sines + angles, dim, scale);
    }
    if (is_key) {
      kernels_->store_key(kv, config_.kv_kind, place, position, dim);
    } else if (!is_query) {
      kernels_->store_value(kv, config_.kv_kind, place, position, dim);
    }
  }
}

KvHead Decoder::kv_head_of(int layer, int kv_head, int row) const
{
  const size_t slot = pass_.slots ? pass_.slots[row] : 0;
  const size_t index = (slot * config_.num_layers + layer) * config_.num_kv_heads + kv_head;
  const size_t offset =
    index * pass_.kv_capacity * config_.head_dim * element_bytes(config_.kv_kind);
  return {static_cast<uint8_t *>(pass_.keys) + offset,
    static_cast<uint8_t *>(pass_.values) + offset};
}

void Decoder::add_linear(int thread, const MsMatrix & matrix, const Rows & rows)
{
  int panel;
  while (pool_.claim(thread, &panel)) {
    kernels_->linear(
      matrix, rows, pass_.width, panel, {state(0), config_.hidden_size, nullptr, true});
  }
}

// A unit is two panels, 32 columns of the inner activations: one group of codes.
void Decoder::gate_up(int thread, const MsLayer & layer, const Rows & rows)
{
  const Rows inner = gated_.rows();
  int unit;
  while (pool_.claim(thread, &unit)) {
    for (int panel = 2 * unit; panel < 2 * unit + 2; ++panel) {
      kernels_->gated(
        layer.gate, layer.up, rows, pass_.width, panel,
        {inner.values, inner.stride, nullptr, false});
    }
    for (int row = 0; is_coded(layer.down) && row < pass_.width; ++row) {
      kernels_->quantise(inner.from(row).at_column(unit * kCodeGroup), kCodeGroup);
    }
  }
}

void Decoder::finish(int thread)
{
  const int first = pass_.width - pass_.num_logits;
  const bool coded = pass_.num_logits > 0 && is_coded(config_.head);
  const Rows rows =
    normed(thread, config_.final_norm, nullptr, first, coded, head_units());
  if (thread == 0 && pass_.hidden) {
    for (int row = 0; row < pass_.width; ++row) {
      const float * values = rows.from(row).values;
      const size_t place = (pass_.hidden_start + row) % pass_.hidden_capacity;
      std::copy(
        values, values + config_.hidden_size, pass_.hidden + place * config_.hidden_size);
    }
  }
  if (pass_.num_logits > 0) {
    head_panels(thread, rows.from(first));
  }
}

void Decoder::head_panels(int thread, const Rows & rows)
{
  Scratch & scratch = scratch_[thread];
  int unit;
  while (pool_.claim(thread, &unit)) {
    const int end = std::min((unit + 1) * kHeadPanels, num_panels(config_.head));
    for (int panel = unit * kHeadPanels; panel < end; ++panel) {
      head_panel(scratch, rows, panel);
    }
  }
  pool_.barrier(thread, 0);
  if (thread == 0 && pass_.best_ids) {
    merge_best();
  }
}

// Logits go to the caller's rows directly, but for a panel that hangs over their end.
void Decoder::head_panel(Scratch & scratch, const Rows & rows, int panel)
{
  const int vocab = config_.head.rows;
  const int first = panel * kPanelRows;
  const int count = std::min(kPanelRows, vocab - first);
  const bool direct = pass_.logits && count == kPanelRows;
  const Output output = direct ? Output{pass_.logits, vocab, nullptr, false} :
    Output{scratch.tile.get() - first, kPanelRows, nullptr, false};
  kernels_->linear(config_.head, rows, pass_.num_logits, panel, output);
  for (int row = 0; row < pass_.num_logits; ++row) {
    const float * values = output.values + row * output.stride + first;
    if (pass_.logits && !direct) {
      std::copy(values, values + count, pass_.logits + row * ptrdiff_t{vocab} + first);
    }
    if (pass_.best_ids) {
      keep_best(scratch, row, values, first, count);
    }
  }
}

void Decoder::keep_best(
  Scratch & scratch, int row, const float * values, int first_id, int count)
{
  float & best = scratch.best[row];
  int32_t & best_id = scratch.best_ids[row];
  for (int i = 0; i < count; ++i) {
    if (values[i] > best || (values[i] == best && first_id + i < best_id)) {
      best = values[i];
      best_id = first_id + i;
    }
  }
}

void Decoder::merge_best()
{
  for (int row = 0; row < pass_.num_logits; ++row) {
    Scratch & first = scratch_[0];
    for (const Scratch & other : scratch_) {
      keep_best(first, row, &other.best[row], other.best_ids[row], 1);
    }
    pass_.best_ids[row] = first.best_ids[row];
  }
}

}  // namespace memspec
