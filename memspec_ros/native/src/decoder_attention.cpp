// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// How a pass shares attention out. A narrow pass gives each thread (KV head, chunk) pairs, and
// whoever ends a KV head's last chunk merges them; a wide pass gives it (KV head, 8 rows) pairs,
// which merge as they go. Both do the same sums in the same order.

#include <algorithm>

#include "decoder.hpp"

namespace memspec
{

int Decoder::attend_units() const
{
  const int parts = is_narrow() ? num_chunks() : (pass_.width + unit_rows() - 1) / unit_rows();
  return config_.num_kv_heads * parts;
}

void Decoder::attend(int thread, int index, bool coded)
{
  const int parts = attend_units() / config_.num_kv_heads;
  int unit;
  while (pool_.claim(thread, &unit)) {
    const int kv_head = unit / parts;
    if (is_narrow()) {
      attend_chunk(thread, index, kv_head, unit % parts);
      std::atomic<int> & done = chunks_done_[kv_head];
      if (done.fetch_add(1, std::memory_order_acq_rel) == parts - 1) {
        done.store(0, std::memory_order_relaxed);
        combine(kv_head, coded);
      }
    } else {
      attend_wide(thread, index, kv_head, unit % parts, coded);
    }
  }
}

// Collect the queries of some rows that see any of a chunk; returns their number. Rows before
// the chunk come first, so what is left out is a whole number of rows at the front.
int Decoder::gather(
  Scratch & scratch, int kv_head, int first_row, int num_rows, int chunk) const
{
  int count = 0;
  for (int row = first_row; row < first_row + num_rows; ++row) {
    const int limit = position_of(row) + 1;
    if (limit <= chunk * kChunk) {
      continue;
    }
    for (int i = 0; i < group_; ++i, ++count) {
      scratch.queries[count] = heads_.get() + static_cast<size_t>(row) * head_stride_ +
        (kv_head * group_ + i) * config_.head_dim;
      scratch.limits[count] = limit;
    }
  }
  return count;
}

PartialView Decoder::partial(int chunk, int head, int row) const
{
  const size_t index =
    (static_cast<size_t>(chunk) * config_.num_heads + head) * kNarrow + row;
  return {partials_.get() + index * config_.head_dim, stats_.get() + 2 * index};
}

void Decoder::attend_chunk(int thread, int index, int kv_head, int chunk)
{
  Scratch & scratch = scratch_[thread];
  const int count = gather(scratch, kv_head, 0, pass_.width, chunk);
  const int first_row = pass_.width - count / group_;
  for (int i = 0; i < count; ++i) {
    scratch.views[i] = partial(chunk, kv_head * group_ + i % group_, first_row + i / group_);
  }
  kernels_->attend(
    kv_head_of(index, kv_head, 0), config_.kv_kind, config_.head_dim, chunk,
    scratch.queries.get(), scratch.limits.get(), count, scratch.views.get());
}

void Decoder::combine(int kv_head, bool coded)
{
  for (int row = 0; row < pass_.width; ++row) {
    for (int i = 0; i < group_; ++i) {
      const int head = kv_head * group_ + i;
      const PartialView first = partial(0, head, row);
      for (int chunk = 1; chunk * kChunk <= pass_.position + row; ++chunk) {
        kernels_->merge(first, partial(chunk, head, row), config_.head_dim);
      }
      kernels_->finish(
        first, config_.head_dim, mixed_.rows().from(row).values + head * config_.head_dim);
    }
    mixed_done(kv_head, row, coded);
  }
}

void Decoder::mixed_done(int kv_head, int row, bool coded)
{
  if (coded) {
    const int columns = group_ * config_.head_dim;
    kernels_->quantise(mixed_.rows().from(row).at_column(kv_head * columns), columns);
  }
}

void Decoder::attend_wide(int thread, int index, int kv_head, int block, bool coded)
{
  Scratch & scratch = scratch_[thread];
  const int dim = config_.head_dim;
  const int first_row = block * unit_rows();
  const int num_rows = std::min(unit_rows(), pass_.width - first_row);
  const int queries = num_rows * group_;
  auto view = [&scratch, dim](int i) {
      return PartialView{scratch.partials.get() + static_cast<size_t>(i) * dim,
        scratch.stats.get() + 2 * i};
    };
  const int last_limit = position_of(first_row + num_rows - 1) + 1;
  for (int chunk = 0; chunk * kChunk < last_limit; ++chunk) {
    const int count = gather(scratch, kv_head, first_row, num_rows, chunk);
    const int place = chunk == 0 ? 0 : queries;
    for (int i = 0; i < count; ++i) {
      scratch.views[i] = view(place + i);
    }
    kernels_->attend(
      kv_head_of(index, kv_head, first_row), config_.kv_kind, dim, chunk, scratch.queries.get(),
      scratch.limits.get(), count, scratch.views.get());
    for (int i = 0; chunk > 0 && i < count; ++i) {
      kernels_->merge(view(queries - count + i), scratch.views[i], dim);
    }
  }
  for (int i = 0; i < queries; ++i) {
    const int head = kv_head * group_ + i % group_;
    kernels_->finish(
      view(i), dim, mixed_.rows().from(first_row + i / group_).values + head * dim);
  }
  for (int row = first_row; row < first_row + num_rows; ++row) {
    mixed_done(kv_head, row, coded);
  }
}

}  // namespace memspec
