// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// The pass of a decoder of the Llama and Qwen2 families.
//
// Every stage of a pass shares out units that no two threads write to: heads of the fused
// projections, (KV head, chunk) pairs of attention, panels of the others.

#ifndef DECODER_HPP_
#define DECODER_HPP_

#include <atomic>
#include <cstdint>
#include <vector>

#include "buffers.hpp"
#include "kernels.hpp"
#include "memspec_native.h"
#include "thread_pool.hpp"

namespace memspec
{

// Rows up to which each thread norms all rows itself, and attention is shared by chunks.
constexpr int kNarrow = 16;
constexpr int kWideRows = 8;  // rows that one attention unit of a wide pass takes
constexpr int kHeadPanels = 4;  // panels that one unit of the head takes

// MS_OK, or what is wrong with a configuration.
int32_t check_config(const MsDecoderConfig & config);
int32_t check_pass(const MsDecoderConfig & config, const MsPass & pass);

class Decoder
{
public:
  Decoder(const MsDecoderConfig & config, ThreadPool & pool);

  int32_t forward(const MsPass & pass);
  size_t bytes() const;

private:
  // What one thread has for itself.
  struct Scratch
  {
    RowsBuffer normed;        // of a narrow pass
    Array<float> tile;        // [max_width, 16]
    Array<float> partials;    // of a wide pass: running and new, [2, queries, head_dim]
    Array<float> stats;       // [2, queries, 2]
    Array<const float *> queries;
    Array<int> limits;
    Array<PartialView> views;
    Array<float> unordered;   // [hidden] or [heads * head_dim], the larger
    Array<float> best;        // [max_width]
    Array<int32_t> best_ids;
  };

  static void enter(void * self, int thread);
  void run(int thread);
  void forget_best();
  void embed(int thread);
  Rows normed(
    int thread, const float * weight, const int32_t * order, int first_coded, bool coded,
    int next_units);
  void norm_row(
    int thread, const Rows & rows, int row, const float * weight, const int32_t * order,
    bool coded);
  void put_in_order(int thread, float * values, const int32_t * order, int columns);
  void order_mixed(int thread, const MsLayer & layer);
  void project(int thread, const MsLayer & layer, int index, const Rows & rows);
  void project_head(const MsLayer & layer, int index, const Rows & rows, int unit);
  void attend(int thread, int index, bool coded);
  void attend_chunk(int thread, int index, int kv_head, int chunk);
  void attend_wide(int thread, int index, int kv_head, int block, bool coded);
  void combine(int kv_head, bool coded);
  void mixed_done(int kv_head, int row, bool coded);
  int gather(Scratch & scratch, int kv_head, int first_row, int num_rows, int chunk) const;
  PartialView partial(int chunk, int head, int row) const;
  void add_linear(int thread, const MsMatrix & matrix, const Rows & rows);
  void gate_up(int thread, const MsLayer & layer, const Rows & rows);
  void finish(int thread);
  void head_panels(int thread, const Rows & rows);
  void head_panel(Scratch & scratch, const Rows & rows, int panel);
  void keep_best(Scratch & scratch, int row, const float * values, int first_id, int count);
  void merge_best();

  int num_chunks() const {return (pass_.position + pass_.width + kChunk - 1) / kChunk;}
  int position_of(int row) const
  {
    return pass_.slots ? pass_.positions[row] : pass_.position + row;
  }
  int attend_units() const;
  int head_units() const
  {
    return pass_.num_logits > 0 ? (num_panels(config_.head) + kHeadPanels - 1) / kHeadPanels : 0;
  }
  bool is_narrow() const {return pass_.width <= kNarrow && !pass_.slots;}
  // Rows of different sequences share no keys, so that each is a unit of its own.
  int unit_rows() const {return pass_.slots ? 1 : kWideRows;}
  KvHead kv_head_of(int layer, int kv_head, int row) const;
  float * state(int row) const
  {
    return states_.get() + static_cast<size_t>(row) * config_.hidden_size;
  }

  MsDecoderConfig config_;
  std::vector<MsLayer> layers_;
  ThreadPool & pool_;
  const int group_;        // query heads of a KV head
  const int head_stride_;  // of heads_
  Array<float> states_;    // [max_width, hidden]: the residual stream
  Array<float> heads_;     // [max_width, heads + 2 kv_heads, head_dim]
  RowsBuffer normed_;      // of a wide pass
  RowsBuffer mixed_;       // attention's output
  RowsBuffer gated_;       // the MLP's inner activations
  Array<float> partials_;  // of a narrow pass: [chunks, heads, 16, head_dim]
  Array<float> stats_;     // [chunks, heads, 16, 2]
  Array<std::atomic<int>> chunks_done_;  // per KV head
  std::vector<Scratch> scratch_;
  MsPass pass_{};
  const Kernels * kernels_ = nullptr;
};

}  // namespace memspec

#endif  // DECODER_HPP_
