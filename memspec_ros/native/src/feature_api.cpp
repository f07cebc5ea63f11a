// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// The C interface of feature-conditioned drafts, what it asks of its arguments, and their memory.

#include <algorithm>
#include <new>

#include "feature_draft.hpp"
#include "pool.hpp"

namespace memspec
{
namespace
{

bool has_shape(const MsMatrix & m, int rows, int columns)
{
  return is_valid_shape(m) && is_coded(m) && m.data && m.rows == rows && m.columns == columns &&
         reinterpret_cast<uintptr_t>(m.data) % 64 == 0;
}

bool are_matrices_valid(const MsFeatureConfig & c)
{
  const int width = c.width;
  for (const MsMatrix * m : {&c.own_in, &c.query, &c.key, &c.key_before, &c.value,
      &c.attention_out})
  {
    if (!has_shape(*m, width, width)) {
      return false;
    }
  }
  for (const MsMatrix * m : {&c.token_in, &c.state_in, &c.copy_in}) {
    if (!has_shape(*m, width, c.hidden_size)) {
      return false;
    }
  }
  const bool embedding_ok = c.embedding.data ?
    is_valid_shape(c.embedding) && c.embedding.rows == c.vocab_size &&
    c.embedding.columns == c.hidden_size : c.float_embedding != nullptr;
  return embedding_ok && has_shape(c.gate_up, 2 * c.intermediate, width) &&
         has_shape(c.down, width, c.intermediate) && has_shape(c.head, c.head.rows, width);
}

bool is_token(const MsFeatureConfig & c, int32_t id) {return id >= 0 && id < c.vocab_size;}

}  // namespace

int32_t check_feature_config(const MsFeatureConfig & c)
{
  if (c.hidden_size < 1 || c.width < 1 || c.num_heads < 1 || c.intermediate < 1 ||
    c.window < 1 || c.max_match < 0 || c.vocab_size < 1 || c.width % c.num_heads ||
    c.capacity - c.window < MEMSPEC_MAX_SLOTS + kMaxSteps || !c.match_in || !c.attention_norm ||
    !c.distance || !c.mlp_norm || !c.out_norm || !c.row_bias || !c.copy_gate || !c.copy_bias ||
    !c.row_tokens || !c.entries)
  {
    return MS_BAD_ARGUMENT;
  }
  if (c.hidden_size % kCodeGroup || c.width % kCodeGroup || c.intermediate % kCodeGroup ||
    c.width / c.num_heads % kPanelRows)
  {
    return MS_UNSUPPORTED;
  }
  return are_matrices_valid(c) ? MS_OK : MS_BAD_ARGUMENT;
}

int32_t check_slots(const MsFeatureConfig & c, const MsSlots & s)
{
  if (!s.token_ids || !s.copied_ids || !s.matches || s.num_slots < 1 ||
    s.num_slots > MEMSPEC_MAX_SLOTS || (!s.states && s.num_slots != 1) || s.num_predicted < 0 ||
    s.num_predicted > s.num_slots || (s.num_predicted > 0 && !s.predicted))
  {
    return MS_BAD_ARGUMENT;
  }
  for (int i = 0; i < s.num_slots; ++i) {
    if (!is_token(c, s.token_ids[i]) || s.matches[i] < 0 || s.matches[i] > c.max_match ||
      (s.matches[i] > 0 && !is_token(c, s.copied_ids[i])))
    {
      return MS_BAD_ARGUMENT;
    }
  }
  return MS_OK;
}

void FeatureScratch::reserve(const MsFeatureConfig & config, int num_threads)
{
  if (config.hidden_size <= hidden_ && config.width <= width_ &&
    config.intermediate <= intermediate_ && config.window <= window_)
  {
    return;
  }
  constexpr int kSlots = MEMSPEC_MAX_SLOTS;
  const int hidden = std::max(hidden_, config.hidden_size);
  const int width = std::max(width_, config.width);
  const int intermediate = std::max(intermediate_, config.intermediate);
  const int window = std::max(window_, config.window);
  FeatureScratch made;
  made.embedded = RowsBuffer(kSlots, hidden);
  made.copied = RowsBuffer(kSlots, hidden);
  made.given = RowsBuffer(kSlots, std::max(hidden, width));
  made.mixed = RowsBuffer(kSlots, width);
  made.gated = RowsBuffer(kSlots, intermediate);
  made.states = Array<float>(static_cast<size_t>(kSlots) * width);
  made.queries = Array<float>(static_cast<size_t>(kSlots) * width);
  made.last_entry = Array<float>(width);
  for (int thread = 0; thread < num_threads; ++thread) {
    OfThread own;
    own.entries = RowsBuffer(kSlots + 1, width);
    own.normed = RowsBuffer(kSlots, width);
    own.scores = Array<float>(window + 15);
    own.tile = Array<float>(kSlots * kPanelRows);
    own.bonus = Array<float>(kSlots);
    own.best = Array<float>(kSlots);
    own.best_rows = Array<int32_t>(kSlots);
    made.threads.push_back(std::move(own));
  }
  made.hidden_ = hidden;
  made.width_ = width;
  made.intermediate_ = intermediate;
  made.window_ = window;
  *this = std::move(made);
}

}  // namespace memspec

struct MsFeature
{
  MsFeature(const MsFeatureConfig & config, MsPool & pool)
  : draft(config, pool.threads, pool.feature) {}

  memspec::FeatureDraft draft;
};

extern "C" {

int32_t memspec_feature_create(
  const MsFeatureConfig * config, MsPool * pool, MsFeature ** feature)
{
  if (!config || !pool || !feature) {
    return MS_BAD_ARGUMENT;
  }
  const int32_t error = memspec::check_feature_config(*config);
  if (error != MS_OK) {
    return error;
  }
  if (!pool->threads.acquire()) {
    return MS_BUSY;
  }
  int32_t result = MS_OK;
  try {
    pool->feature.reserve(*config, pool->threads.num_threads());
    *feature = new MsFeature(*config, *pool);
  } catch (const std::bad_alloc &) {
    result = MS_OUT_OF_MEMORY;
  }
  pool->threads.release();
  return result;
}

void memspec_feature_destroy(MsFeature * feature) {delete feature;}

void memspec_feature_restart(MsFeature * feature)
{
  if (feature) {
    feature->draft.restart();
  }
}

void memspec_feature_rewind(MsFeature * feature)
{
  if (feature) {
    feature->draft.rewind();
  }
}

int32_t memspec_feature_run(MsFeature * feature, const MsSlots * slots)
{
  return feature && slots ? feature->draft.run(*slots) : MS_BAD_ARGUMENT;
}

}  // extern "C"
