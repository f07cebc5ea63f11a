// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// The C interface of pool, matrix product and decoder.

#include <algorithm>
#include <memory>
#include <new>
#include <system_error>

#include "decoder.hpp"
#include "kernels.hpp"
#include "pool.hpp"

using memspec::kPanelRows;

struct MsDecoder
{
  MsDecoder(const MsDecoderConfig & config, MsPool & pool)
  : decoder(config, pool.threads) {}

  memspec::Decoder decoder;
};

namespace
{

constexpr int kMaxThreads = 64;
constexpr int kMaxLinearRows = 512;

struct LinearJob
{
  memspec::ThreadPool & threads;
  const MsMatrix & matrix;
  const float * bias;
  memspec::Rows rows;
  int width;
  float * output;

  // A panel that hangs over the rows' end goes through a tile.
  void run_tail(int panel) const
  {
    const int first = panel * kPanelRows;
    float tile[kPanelRows];
    for (int row = 0; row < width; ++row) {
      memspec::kernels().linear(
        matrix, rows.from(row), 1, panel, {tile - first, kPanelRows, nullptr, false});
      for (int i = first; i < matrix.rows; ++i) {
        output[row * static_cast<size_t>(matrix.rows) + i] =
          tile[i - first] + (bias ? bias[i] : 0.0f);
      }
    }
  }

  void run(int thread) const
  {
    int panel;
    while (threads.claim(thread, &panel)) {
      if ((panel + 1) * kPanelRows > matrix.rows) {
        run_tail(panel);
      } else {
        memspec::kernels().linear(
          matrix, rows, width, panel, {output, matrix.rows, bias, false});
      }
    }
  }

  static void enter(void * self, int thread) {static_cast<LinearJob *>(self)->run(thread);}
};

int32_t run_linear(
  MsPool & pool, const MsMatrix & matrix, const float * bias, const float * input, int32_t width,
  float * output)
{
  try {
    if (!pool.rows.holds(width, matrix.columns)) {
      pool.rows = memspec::RowsBuffer(
        std::max(width, int32_t{16}), std::max(matrix.columns, int32_t{4096}));
    }
  } catch (const std::bad_alloc &) {
    return MS_OUT_OF_MEMORY;
  }
  const memspec::Rows rows = pool.rows.rows();
  for (int row = 0; row < width; ++row) {
    const float * values = input + static_cast<size_t>(row) * matrix.columns;
    std::copy(values, values + matrix.columns, rows.from(row).values);
    if (memspec::is_coded(matrix)) {
      memspec::kernels().quantise(rows.from(row), matrix.columns);
    }
  }
  LinearJob job{pool.threads, matrix, bias, rows, width, output};
  pool.threads.run(&LinearJob::enter, &job, memspec::num_panels(matrix));
  return MS_OK;
}

}  // namespace

extern "C" {

MsPool * memspec_pool_create(int32_t num_threads)
{
  if (num_threads < 1 || num_threads > kMaxThreads) {
    return nullptr;
  }
  try {
    return new MsPool(num_threads);
  } catch (const std::bad_alloc &) {
    return nullptr;
  } catch (const std::system_error &) {  // no thread to be had
    return nullptr;
  }
}

void memspec_pool_destroy(MsPool * pool) {delete pool;}

int32_t memspec_linear(
  MsPool * pool, const MsMatrix * matrix, const float * bias, const float * input, int32_t width,
  float * output)
{
  if (!pool || !memspec_packed_bytes(matrix) || !matrix->data || !input || !output || width < 1 ||
    width > kMaxLinearRows)
  {
    return MS_BAD_ARGUMENT;
  }
  if (!pool->threads.acquire()) {
    return MS_BUSY;
  }
  const int32_t error = run_linear(*pool, *matrix, bias, input, width, output);
  pool->threads.release();
  return error;
}

int32_t memspec_decoder_create(
  const MsDecoderConfig * config, MsPool * pool, MsDecoder ** decoder)
{
  if (!config || !pool || !decoder) {
    return MS_BAD_ARGUMENT;
  }
  const int32_t error = memspec::check_config(*config);
  if (error != MS_OK) {
    return error;
  }
  try {
    *decoder = new MsDecoder(*config, *pool);
  } catch (const std::bad_alloc &) {
    return MS_OUT_OF_MEMORY;
  }
  return MS_OK;
}

void memspec_decoder_destroy(MsDecoder * decoder) {delete decoder;}

size_t memspec_decoder_bytes(const MsDecoder * decoder)
{
  return decoder ? decoder->decoder.bytes() : 0;
}

int32_t memspec_decoder_forward(MsDecoder * decoder, const MsPass * pass)
{
  return decoder && pass ? decoder->decoder.forward(*pass) : MS_BAD_ARGUMENT;
}

}  // extern "C"
