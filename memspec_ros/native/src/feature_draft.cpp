// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0

#include "feature_draft.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "packing.hpp"

namespace memspec
{
namespace
{

// Some rows of a matrix, whole panels, as a matrix.
MsMatrix some_rows(const MsMatrix & matrix, int first, int count)
{
  MsMatrix part = matrix;
  part.rows = count;
  part.data = panel_data(matrix, first / kPanelRows);
  return part;
}

}  // namespace

FeatureDraft::FeatureDraft(
  const MsFeatureConfig & config, ThreadPool & pool, FeatureScratch & scratch)
: config_(config), gate_(some_rows(config.gate_up, 0, config.intermediate)),
  up_(some_rows(config.gate_up, config.intermediate, config.intermediate)), pool_(pool),
  scratch_(scratch)
{
  for (Last * last : {&fed_, &stepped_}) {
    last->entry = Array<float>(config.width);
    last->output = Array<float>(config.width);
  }
}

void FeatureDraft::restart()
{
  num_entries_ = num_steps_ = 0;
  has_output_ = false;
  std::fill_n(fed_.entry.get(), config_.width, 0.0f);
}

void FeatureDraft::rewind()
{
  num_entries_ -= num_steps_;
  num_steps_ = 0;
}

int32_t FeatureDraft::run(const MsSlots & slots)
{
  const int32_t error = check_slots(config_, slots);
  if (error != MS_OK) {
    return error;
  }
  if (!slots.states && (!has_output_ || num_steps_ == kMaxSteps)) {
    return MS_BAD_ARGUMENT;
  }
  if (!pool_.acquire()) {
    return MS_BUSY;
  }
  begin(slots);
  pool_.run(&FeatureDraft::enter, this, 3 * slots.num_slots);
  end();
  pool_.release();
  return MS_OK;
}

void FeatureDraft::enter(void * self, int thread)
{
  static_cast<FeatureDraft *>(self)->run_on(thread);
}

void FeatureDraft::begin(const MsSlots & slots)
{
  slots_ = slots;
  kernels_ = &kernels();
  if (slots.states) {
    rewind();
  }
  before_ = num_steps_ > 0 ? &stepped_ : &fed_;
  if (num_entries_ + slots.num_slots > config_.capacity) {
    slide(slots.num_slots);
  }
  for (FeatureScratch::OfThread & own : scratch_.threads) {
    // A thread that comes too late for the head leaves nothing there.
    std::fill_n(own.best.get(), slots.num_predicted, -INFINITY);
    std::fill_n(own.best_rows.get(), slots.num_predicted, 0);
  }
  for (int row = 0; row < slots.num_slots; ++row) {
    copied_rows_[row] = match(row) > 0 ? row_of(slots.copied_ids[row]) : -1;
  }
}

// Move what attention may still see to the memory's beginning.
void FeatureDraft::slide(int num_new)
{
  const int kept =
    std::min({num_entries_, config_.window + kMaxSteps, config_.capacity - num_new});
  const size_t bytes = sizeof(float) * kept * config_.width;
  std::memmove(keys(0), keys(num_entries_ - kept), bytes);
  std::memmove(values(0), values(num_entries_ - kept), bytes);
  num_entries_ = kept;
}

void FeatureDraft::run_on(int thread)
{
  gather(thread);
  pool_.barrier(thread, panels());
  take_in(thread);
  pool_.barrier(thread, 3 * panels());
  make_entries(thread);
  if (slots_.num_predicted == 0) {
    return;
  }
  pool_.barrier(thread, slots_.num_predicted * config_.num_heads);
  attend(thread);
  pool_.barrier(thread, panels());
  attention_out(thread);
  pool_.barrier(thread, config_.intermediate / kCodeGroup);
  gate_up(thread);
  pool_.barrier(thread, panels());
  down(thread);
  pool_.barrier(thread, head_units());
  predict(thread);
}

// Keep what the next slot needs. The first thread's outputs are as good as any other's: the states
// that it normed stay as they are after the last product.
void FeatureDraft::end()
{
  const int num_slots = slots_.num_slots;
  const int num_predicted = slots_.num_predicted;
  const FeatureScratch::OfThread & own = scratch_.threads[0];
  const Last & last = slots_.states ? fed_ : stepped_;
  std::copy_n(scratch_.last_entry.get(), config_.width, last.entry.get());
  num_entries_ += num_slots;
  num_steps_ += slots_.states ? 0 : num_slots;
  has_output_ = num_predicted > 0;
  if (num_predicted > 0) {
    choose();
    const Rows outputs = own.normed.rows();
    std::copy_n(outputs.from(num_predicted - 1).values, config_.width, last.output.get());
    for (int row = 0; slots_.outputs && row < num_predicted; ++row) {
      std::copy_n(
        outputs.from(row).values, config_.width, slots_.outputs + ptrdiff_t{row} * config_.width);
    }
  }
}

void FeatureDraft::gather(int thread)
{
  int unit;
  while (pool_.claim(thread, &unit)) {
    gather_row(unit / 3, unit % 3);
  }
}

// One of the inputs of a slot: its token, the token looked up, or the state.
void FeatureDraft::gather_row(int row, int part)
{
  int columns = config_.hidden_size;
  Rows place = scratch_.given.rows().from(row);
  if (part == 0) {
    place = scratch_.embedded.rows().from(row);
    embed(slots_.token_ids[row], place);
  } else if (part == 1) {
    place = scratch_.copied.rows().from(row);
    if (match(row) > 0) {
      embed(slots_.copied_ids[row], place);
    } else {
      std::fill_n(place.values, columns, 0.0f);
    }
  } else if (slots_.states) {
    std::copy_n(slots_.states + ptrdiff_t{row} * columns, columns, place.values);
  } else {
    columns = config_.width;
    std::copy_n(before_->output.get(), columns, place.values);
  }
  kernels_->quantise(place, columns);
}

void FeatureDraft::embed(int token, const Rows & row) const
{
  if (config_.embedding.data) {
    unpack_row(config_.embedding, token, row.values);
  } else {
    std::copy_n(
      config_.float_embedding + ptrdiff_t{token} * config_.hidden_size, config_.hidden_size,
      row.values);
  }
}

// The slots' inputs: projections of all that was gathered, and a vector for the match's length.
void FeatureDraft::take_in(int thread)
{
  const int num_slots = slots_.num_slots;
  const Output into = {state(0), config_.width, nullptr, false};
  const Output onto = {state(0), config_.width, nullptr, true};
  const bool copies = std::any_of(
    slots_.matches, slots_.matches + num_slots, [](int32_t length) {return length > 0;});
  int panel;
  while (pool_.claim(thread, &panel)) {
    kernels_->linear(own_or_state(), scratch_.given.rows(), num_slots, panel, into);
    kernels_->linear(config_.token_in, scratch_.embedded.rows(), num_slots, panel, onto);
    if (copies) {
      kernels_->linear(config_.copy_in, scratch_.copied.rows(), num_slots, panel, onto);
    }
    for (int row = 0; row < num_slots; ++row) {
      const float * added = config_.match_in + ptrdiff_t{match(row)} * config_.width;
      for (int i = panel * kPanelRows; i < (panel + 1) * kPanelRows; ++i) {
        state(row)[i] += added[i];
      }
    }
  }
}

// Queries of the slots that predict; keys, into which the slot before is mixed, and values.
void FeatureDraft::make_entries(int thread)
{
  const int num_slots = slots_.num_slots;
  const Rows before = scratch_.threads[thread].entries.rows();
  std::copy_n(before_->entry.get(), config_.width, before.values);
  kernels_->quantise(before, config_.width);
  const Rows rows = before.from(1);
  for (int row = 0; row < num_slots; ++row) {
    const Rows place = rows.from(row);
    kernels_->rms_norm(
      state(row), config_.attention_norm, config_.norm_epsilon, config_.width, place.values);
    kernels_->quantise(place, config_.width);
  }
  const Output queries = {query(0), config_.width, nullptr, false};
  const Output keys_into = {keys(num_entries_), config_.width, nullptr, false};
  const Output keys_onto = {keys(num_entries_), config_.width, nullptr, true};
  const Output values_into = {values(num_entries_), config_.width, nullptr, false};
  int unit;
  while (pool_.claim(thread, &unit)) {
    const int panel = unit / 3;
    if (unit == 0) {
      // Not in end(): a thread that is late makes its rows of states that have changed since.
      std::copy_n(rows.from(num_slots - 1).values, config_.width, scratch_.last_entry.get());
    }
    if (unit % 3 == 0) {
      kernels_->linear(config_.key, rows, num_slots, panel, keys_into);
      kernels_->linear(config_.key_before, before, num_slots, panel, keys_onto);
    } else if (unit % 3 == 1) {
      kernels_->linear(config_.value, rows, num_slots, panel, values_into);
    } else if (slots_.num_predicted > 0) {
      kernels_->linear(
        config_.query, rows.from(first()), slots_.num_predicted, panel, queries);
    }
  }
}

}  // namespace memspec
