// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// From a feature-conditioned draft's entries to the tokens that it predicts.

#include <algorithm>
#include <cmath>

#include "feature_draft.hpp"

namespace memspec
{
namespace
{

constexpr int kHeadPanels = 4;  // panels that one unit of the head takes

}  // namespace

void FeatureDraft::attend(int thread)
{
  const int dim = head_dim();
  int unit;
  while (pool_.claim(thread, &unit)) {
    const int row = unit / config_.num_heads;
    const int head = unit % config_.num_heads;
    const int stop = num_entries_ + first() + row + 1;
    const int count = std::min(stop, config_.window);
    const WindowView window = {
      keys(stop - count) + head * dim, values(stop - count) + head * dim, config_.width, count,
      config_.distance + ptrdiff_t{head} * config_.window};
    kernels_->attend_window(
      window, query(row) + head * dim, dim, scratch_.threads[thread].scores.get(),
      scratch_.mixed.rows().from(row).values + head * dim);
  }
}

void FeatureDraft::attention_out(int thread)
{
  const Rows rows = scratch_.threads[thread].normed.rows();
  for (int row = 0; row < slots_.num_predicted; ++row) {
    const Rows place = rows.from(row);
    std::copy_n(scratch_.mixed.rows().from(row).values, config_.width, place.values);
    kernels_->quantise(place, config_.width);
  }
  add_product(thread, config_.attention_out, rows);
}

// Add a product to the states of the slots that predict.
void FeatureDraft::add_product(int thread, const MsMatrix & matrix, const Rows & rows)
{
  int panel;
  while (pool_.claim(thread, &panel)) {
    kernels_->linear(
      matrix, rows, slots_.num_predicted, panel, {state(first()), config_.width, nullptr, true});
  }
}

Rows FeatureDraft::normed(int thread, const float * weight)
{
  const Rows rows = scratch_.threads[thread].normed.rows();
  for (int row = 0; row < slots_.num_predicted; ++row) {
    const Rows place = rows.from(row);
    kernels_->rms_norm(
      state(first() + row), weight, config_.norm_epsilon, config_.width, place.values);
    kernels_->quantise(place, config_.width);
  }
  return rows;
}

// A unit is two panels, 32 columns of the inner activations: one group of codes.
void FeatureDraft::gate_up(int thread)
{
  const Rows rows = normed(thread, config_.mlp_norm);
  const Rows inner = scratch_.gated.rows();
  int unit;
  while (pool_.claim(thread, &unit)) {
    for (int panel = 2 * unit; panel < 2 * unit + 2; ++panel) {
      kernels_->gated(
        gate_, up_, rows, slots_.num_predicted, panel,
        {inner.values, inner.stride, nullptr, false});
    }
    for (int row = 0; row < slots_.num_predicted; ++row) {
      kernels_->quantise(inner.from(row).at_column(unit * kCodeGroup), kCodeGroup);
    }
  }
}

void FeatureDraft::down(int thread)
{
  add_product(thread, config_.down, scratch_.gated.rows());
}

int FeatureDraft::head_units() const
{
  return (num_panels(config_.head) + kHeadPanels - 1) / kHeadPanels;
}

// The output, its largest logit among the rows that this thread takes, and what the looked-up
// token gains.
void FeatureDraft::predict(int thread)
{
  FeatureScratch::OfThread & own = scratch_.threads[thread];
  const Rows rows = normed(thread, config_.out_norm);
  for (int row = 0; row < slots_.num_predicted; ++row) {
    own.bonus[row] = config_.copy_bias[match(first() + row)] +
      kernels_->dot(rows.from(row).values, config_.copy_gate, config_.width);
  }
  int unit;
  while (pool_.claim(thread, &unit)) {
    const int end = std::min((unit + 1) * kHeadPanels, num_panels(config_.head));
    for (int panel = unit * kHeadPanels; panel < end; ++panel) {
      head_panel(own, rows, panel);
    }
  }
}

void FeatureDraft::head_panel(FeatureScratch::OfThread & own, const Rows & rows, int panel)
{
  const int start = panel * kPanelRows;
  const int count = std::min(kPanelRows, config_.head.rows - start);
  kernels_->linear(
    config_.head, rows, slots_.num_predicted, panel,
    {own.tile.get() - start, kPanelRows, nullptr, false});
  for (int row = 0; row < slots_.num_predicted; ++row) {
    float * logits = own.tile.get() + row * kPanelRows;
    for (int i = 0; i < count; ++i) {
      logits[i] += config_.row_bias[start + i];
    }
    const int copied = copied_rows_[first() + row] - start;
    if (copied >= 0 && copied < count) {
      logits[copied] += own.bonus[row];
    }
    for (int i = 0; i < count; ++i) {
      keep_best(own, row, logits[i], start + i);
    }
  }
}

void FeatureDraft::keep_best(
  FeatureScratch::OfThread & own, int row, float logit, int head_row)
{
  float & best = own.best[row];
  if (logit > best || (logit == best && head_row < own.best_rows[row])) {
    best = logit;
    own.best_rows[row] = head_row;
  }
}

// A looked-up token that the head has no row for wins by its bonus alone.
void FeatureDraft::choose()
{
  FeatureScratch::OfThread & all = scratch_.threads[0];
  for (int row = 0; row < slots_.num_predicted; ++row) {
    for (const FeatureScratch::OfThread & other : scratch_.threads) {
      keep_best(all, row, other.best[row], other.best_rows[row]);
    }
    const int slot = first() + row;
    const bool beyond =
      match(slot) > 0 && copied_rows_[slot] < 0 && all.bonus[row] > all.best[row];
    slots_.predicted[row] =
      beyond ? slots_.copied_ids[slot] : config_.row_tokens[all.best_rows[row]];
  }
}

int FeatureDraft::row_of(int32_t token) const
{
  const int32_t * end = config_.row_tokens + config_.head.rows;
  const int32_t * found = std::lower_bound(config_.row_tokens, end, token);
  return found != end && *found == token ? static_cast<int>(found - config_.row_tokens) : -1;
}

}  // namespace memspec
