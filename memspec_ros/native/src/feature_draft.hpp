// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// A feature-conditioned draft: models/feature_network.py says what it computes and why.
//
// As in the decoder, the stages of a run share out units that no two threads write to, and what
// a slot yields does not depend on the slots that run with it.

#ifndef FEATURE_DRAFT_HPP_
#define FEATURE_DRAFT_HPP_

#include <cstdint>

#include "feature_scratch.hpp"
#include "kernels.hpp"
#include "memspec_native.h"
#include "thread_pool.hpp"

namespace memspec
{

// Steps from own output in a row: these may be forgotten again when the window has been moved.
constexpr int kMaxSteps = 16;

// MS_OK, or what is wrong.
int32_t check_feature_config(const MsFeatureConfig & config);
int32_t check_slots(const MsFeatureConfig & config, const MsSlots & slots);

class FeatureDraft
{
public:
  FeatureDraft(const MsFeatureConfig & config, ThreadPool & pool, FeatureScratch & scratch);

  void restart();
  void rewind();
  int32_t run(const MsSlots & slots);

private:
  // What the next slot needs of the last one.
  struct Last
  {
    Array<float> entry;   // its normed input, [width]
    Array<float> output;  // [width]
  };

  static void enter(void * self, int thread);
  void begin(const MsSlots & slots);
  void run_on(int thread);
  void end();

  void gather(int thread);
  void gather_row(int row, int part);
  void embed(int token, const Rows & row) const;
  void take_in(int thread);
  void make_entries(int thread);
  void attend(int thread);
  void attention_out(int thread);
  void gate_up(int thread);
  void down(int thread);
  void add_product(int thread, const MsMatrix & matrix, const Rows & rows);
  Rows normed(int thread, const float * weight);
  void predict(int thread);
  void head_panel(FeatureScratch::OfThread & own, const Rows & rows, int panel);
  void keep_best(FeatureScratch::OfThread & own, int row, float logit, int head_row);
  void choose();
  int row_of(int32_t token) const;

  void slide(int num_new);
  const MsMatrix & own_or_state() const {return slots_.states ? config_.state_in : config_.own_in;}
  int match(int row) const {return slots_.matches[row];}
  int first() const {return slots_.num_slots - slots_.num_predicted;}  // that predicts
  int panels() const {return config_.width / kPanelRows;}
  int head_units() const;
  int head_dim() const {return config_.width / config_.num_heads;}
  float * keys(int place) const {return config_.entries + ptrdiff_t{place} * config_.width;}
  float * values(int place) const {return keys(config_.capacity + place);}
  float * state(int row) const {return scratch_.states.get() + ptrdiff_t{row} * config_.width;}
  float * query(int row) const {return scratch_.queries.get() + ptrdiff_t{row} * config_.width;}

  MsFeatureConfig config_;
  MsMatrix gate_, up_;
  ThreadPool & pool_;
  FeatureScratch & scratch_;
  const Kernels * kernels_ = nullptr;
  MsSlots slots_{};
  int32_t copied_rows_[MEMSPEC_MAX_SLOTS];  // of the head, or -1

  int num_entries_ = 0;
  int num_steps_ = 0;  // of them, made from own output
  bool has_output_ = false;
  Last fed_, stepped_;
  const Last * before_ = nullptr;  // the slot before those that run
};

}  // namespace memspec

#endif  // FEATURE_DRAFT_HPP_
