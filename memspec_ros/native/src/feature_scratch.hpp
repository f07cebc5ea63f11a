// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// Activations of a feature-conditioned draft. All drafts of a pool share them: only one runs.

#ifndef FEATURE_SCRATCH_HPP_
#define FEATURE_SCRATCH_HPP_

#include <cstdint>
#include <vector>

#include "buffers.hpp"
#include "memspec_native.h"

namespace memspec
{

class FeatureScratch
{
public:
  // What one thread has for itself. Small rows are made by each thread anew, which is cheaper
  // than waiting for one another.
  struct OfThread
  {
    RowsBuffer entries;  // the normed input of the slot before the first, and of all slots
    RowsBuffer normed;   // input of the stage that runs
    Array<float> scores;      // [window, rounded up to a multiple of 16]
    Array<float> tile;        // [slots, 16]
    Array<float> bonus;       // [slots]
    Array<float> best;        // [slots]
    Array<int32_t> best_rows;  // [slots]
  };

  // Make room for drafts of such sizes too. What was made for others is kept when it is larger.
  void reserve(const MsFeatureConfig & config, int num_threads);

  RowsBuffer embedded;  // the tokens' embeddings
  RowsBuffer copied;    // those of the looked-up tokens
  RowsBuffer given;     // states of the target, or the draft's own output
  RowsBuffer mixed;     // attention's output
  RowsBuffer gated;     // the MLP's inner activations
  Array<float> states;   // [slots, width]: the residual stream
  Array<float> queries;  // [slots, width]
  Array<float> last_entry;  // [width]: the normed input of the last slot
  std::vector<OfThread> threads;

private:
  int hidden_ = 0;
  int width_ = 0;
  int intermediate_ = 0;
  int window_ = 0;
};

}  // namespace memspec

#endif  // FEATURE_SCRATCH_HPP_
