// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// C interface of the native decoder: decoding of Llama and Qwen2 family models on a CPU.
//
// All memory that outlives a call belongs to the caller: packed weights, KV cache, logits, hidden
// states. Functions that can fail return 0, or a MsError. Nothing here throws across the border.

#ifndef MEMSPEC_NATIVE_H_
#define MEMSPEC_NATIVE_H_

#include <stddef.h>
#include <stdint.h>

#define MEMSPEC_ABI_VERSION 2

#if defined(__GNUC__)
#define MEMSPEC_API __attribute__((visibility("default")))
#else
#define MEMSPEC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum MsKind { MS_FP32 = 0, MS_FP16 = 1, MS_BF16 = 2, MS_INT8 = 3, MS_INT4 = 4 };

// What is added to code * scale: nothing, one stored number a group, or -8 * scale.
enum MsOffset { MS_NO_OFFSET = 0, MS_MINIMUM = 1, MS_CENTRED = 2 };

enum MsError {
  MS_OK = 0,
  MS_BAD_ARGUMENT = 1,
  MS_UNSUPPORTED = 2,
  MS_OUT_OF_MEMORY = 3,
  MS_BUSY = 4  // the thread pool is in use by another call
};

// A packed matrix [rows, columns]. Rows are padded to panels of 16 (see panel.hpp).
struct MsMatrix {
  int32_t kind;        // MsKind
  int32_t rows;
  int32_t columns;
  int32_t group;       // columns that share a scale; 0 for floats
  int32_t scale_kind;  // MS_FP32 or MS_FP16
  int32_t offset;      // MsOffset
  const void * data;   // 64-byte aligned, memspec_packed_bytes long
};

struct MsLayer {
  const float * attention_norm;  // [hidden]
  const float * mlp_norm;        // [hidden]
  const float * query_bias;      // [heads * head_dim], or null; the two below likewise
  const float * key_bias;
  const float * value_bias;
  // Where the columns of a stage's matrices are not in the order of its inputs: the input that
  // each column is for, [hidden] for queries, keys and values, [heads * head_dim] for `output`,
  // [hidden] for gate and up. Null where they are.
  const int32_t * attention_order;
  const int32_t * output_order;
  const int32_t * mlp_order;
  struct MsMatrix query, key, value, output, gate, up, down;
};

struct MsDecoderConfig {
  int32_t num_layers;
  int32_t hidden_size;
  int32_t intermediate_size;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t context_tokens;  // longest KV cache that will be given
  int32_t max_width;       // most tokens in one pass
  float norm_epsilon;
  int32_t kv_kind;             // MS_FP32 or MS_FP16
  const float * cosines;       // [context_tokens, head_dim / 2]
  const float * sines;         // likewise
  const float * final_norm;    // [hidden], or null: the last states are not normed
  const struct MsLayer * layers;
  struct MsMatrix embedding;   // data null: only passes with embeddings
  struct MsMatrix head;        // data null: no logits
};

// One pass over `width` tokens at positions `position`, `position` + 1, ... of one sequence, or,
// when `slots` is given, over tokens of several: row i is at positions[i] of sequence slots[i],
// and keys and values are [num_slots, layers, kv_heads, kv_capacity, head_dim].
struct MsPass {
  const int32_t * token_ids;  // [width], or null when `embeddings` is given
  const float * embeddings;   // [width, hidden]
  int32_t width;
  int32_t position;           // entries of the KV cache before this pass
  int32_t num_logits;         // last rows that get logits
  int32_t kv_capacity;        // tokens that keys and values have room for, a multiple of 16
  void * keys;                // [layers, kv_heads, kv_capacity, head_dim] elements, own layout
  void * values;              // likewise
  float * logits;             // [num_logits, rows of head], or null
  int32_t * best_ids;         // [num_logits] ids of the largest logits (lowest of equals), or null
  float * hidden;             // ring of last hidden states [hidden_capacity, hidden], or null
  int32_t hidden_start;       // the state of the i-th token goes to row
  int32_t hidden_capacity;    // (hidden_start + i) % hidden_capacity
  int32_t num_slots;
  const int32_t * slots;      // [width], or null
  const int32_t * positions;  // [width], with slots
};

// A feature-conditioned draft (EAGLE's kind). Slot p holds token p, what a look-up proposes to
// follow it, and the target's state of position p - 1 (or the draft's own last output), and
// predicts token p + 1. Matrices are [out, in].
struct MsFeatureConfig {
  int32_t hidden_size;   // the target's
  int32_t width;
  int32_t num_heads;
  int32_t intermediate;
  int32_t window;        // slots that attention sees
  int32_t max_match;
  int32_t capacity;      // slots that `entries` has room for
  int32_t vocab_size;
  float norm_epsilon;
  struct MsMatrix embedding;   // the target's table [vocab_size, hidden]; data null:
  const float * float_embedding;  // the same, as rows of floats
  struct MsMatrix token_in, state_in, own_in, copy_in, query, key, key_before, value;
  struct MsMatrix attention_out, gate_up, down, head;
  const float * match_in;        // [max_match + 1, width]
  const float * attention_norm;  // [width]
  const float * distance;        // [num_heads, window]
  const float * mlp_norm;        // [width]
  const float * out_norm;        // [width]
  const float * row_bias;        // [rows of head]
  const float * copy_gate;       // [width]
  const float * copy_bias;       // [max_match + 1]
  const int32_t * row_tokens;    // [rows of head], ascending
  float * entries;               // keys and values, [2, capacity, width]
};

// Consecutive slots, following those of the last call.
struct MsSlots {
  const int32_t * token_ids;   // [num_slots]
  const int32_t * copied_ids;  // [num_slots]; not looked at where the match is 0
  const int32_t * matches;     // [num_slots], 0 to max_match
  int32_t num_slots;           // at most MEMSPEC_MAX_SLOTS
  const float * states;        // [num_slots, hidden]; null: one slot, from the last output
  int32_t num_predicted;       // last slots that predict a token
  int32_t * predicted;         // [num_predicted]
  float * outputs;             // [num_predicted, width], or null
};

#define MEMSPEC_MAX_SLOTS 64

struct MsPool;
struct MsDecoder;
struct MsFeature;

MEMSPEC_API int32_t memspec_abi_version(void);

// Instruction set in use: "avx512vnni", "avxvnni", "avx2", "neon_dotprod" or "plain".
MEMSPEC_API const char * memspec_instruction_set(void);

// Use another instruction set (for tests); MS_UNSUPPORTED where this machine has it not.
MEMSPEC_API int32_t memspec_select_instruction_set(const char * name);

MEMSPEC_API size_t memspec_packed_bytes(const struct MsMatrix * shape);

// codes [rows, columns]: 0..15 for INT4, int8 for INT8; scales and minima [rows, columns / group].
MEMSPEC_API int32_t memspec_pack_grouped(
  const struct MsMatrix * shape, const uint8_t * codes, const float * scales,
  const float * minima, void * packed);

// values [rows, columns] in the shape's own kind.
MEMSPEC_API int32_t memspec_pack_dense(
  const struct MsMatrix * shape, const void * values, void * packed);

// Write one row's float32 values.
MEMSPEC_API int32_t memspec_unpack_row(
  const struct MsMatrix * matrix, int32_t row, float * values);

MEMSPEC_API struct MsPool * memspec_pool_create(int32_t num_threads);
MEMSPEC_API void memspec_pool_destroy(struct MsPool * pool);

// output [width, rows] = input [width, columns] * matrix^T + bias; bias may be null.
MEMSPEC_API int32_t memspec_linear(
  struct MsPool * pool, const struct MsMatrix * matrix, const float * bias, const float * input,
  int32_t width, float * output);

MEMSPEC_API int32_t memspec_decoder_create(
  const struct MsDecoderConfig * config, struct MsPool * pool, struct MsDecoder ** decoder);
MEMSPEC_API void memspec_decoder_destroy(struct MsDecoder * decoder);
MEMSPEC_API size_t memspec_decoder_bytes(const struct MsDecoder * decoder);
MEMSPEC_API int32_t memspec_decoder_forward(
  struct MsDecoder * decoder, const struct MsPass * pass);

MEMSPEC_API int32_t memspec_feature_create(
  const struct MsFeatureConfig * config, struct MsPool * pool, struct MsFeature ** feature);
MEMSPEC_API void memspec_feature_destroy(struct MsFeature * feature);

// Forget all slots.
MEMSPEC_API void memspec_feature_restart(struct MsFeature * feature);

// Forget the slots that were run from the draft's own output; slots with states do so, too.
MEMSPEC_API void memspec_feature_rewind(struct MsFeature * feature);

MEMSPEC_API int32_t memspec_feature_run(struct MsFeature * feature, const struct MsSlots * slots);

#ifdef __cplusplus
}
#endif

#endif  // MEMSPEC_NATIVE_H_
