# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes that a target will take, from its configuration alone."""

from __future__ import annotations

from memspec_ros.models.decoder_config import DecoderConfig

FLOAT_BYTES = {'fp32': 4, 'bf16': 2, 'fp16': 2}
INT4_GROUP = 32
GROUP_SCALE_BYTES = 4  # scale and zero, 16 bits each


def weight_bytes(config: DecoderConfig, dtype: str, *, group: int = INT4_GROUP,
                 table_bytes_per_weight: float | None = None) -> int:
    """Return the bytes of a decoder's weights.

    :param dtype: ``fp32``, ``bf16``, ``fp16`` or ``int4`` for the layers' matrices; in int4 each
        group of columns has a scale and a zero of 16 bits.
    :param group: columns that share a scale.
    :param table_bytes_per_weight: of embedding and head; None takes 2, or 4 in fp32. A tied head
        is counted once.
    """
    tables = (1 if config.tied_head else 2) * config.vocab_size * config.hidden_size
    matrices = config.num_weights - tables
    per_weight = 0.5 + GROUP_SCALE_BYTES / group if dtype == 'int4' else FLOAT_BYTES[dtype]
    per_table = table_bytes_per_weight or (4 if dtype == 'fp32' else 2)
    vectors = config.num_layers * (2 * config.hidden_size + config.qkv_bias * (
        config.query_size + 2 * config.kv_size)) + config.hidden_size
    return int(matrices * per_weight + tables * per_table
               + vectors * FLOAT_BYTES.get(dtype, 2))


def kv_cache_bytes(config: DecoderConfig, dtype: str, context_tokens: int) -> int:
    """Return the bytes of the KV cache of ``context_tokens``, in the activations' dtype."""
    return context_tokens * config.kv_bytes_per_token(FLOAT_BYTES.get(dtype, 2))


def workspace_bytes(config: DecoderConfig, dtype: str, *, context_tokens: int,
                    prefill_chunk_tokens: int, max_draft_length: int,
                    hidden_tokens: int = 0) -> int:
    """Return what a pass needs beside weights and KV cache, at its widest.

    The larger of a prefill chunk (states, the widest projection, and attention scores of all
    heads over the whole context) and a verification (its logits in float32), and the ring of
    ``hidden_tokens`` hidden states.
    """
    size = FLOAT_BYTES.get(dtype, 2)
    widest = max(2 * config.intermediate_size, config.query_size + 2 * config.kv_size)
    chunk = prefill_chunk_tokens * size * (
        4 * config.hidden_size + 2 * widest + config.num_heads * context_tokens)
    logits = (max_draft_length + 1) * config.vocab_size * (4 + size)
    return max(chunk, logits) + hidden_tokens * config.hidden_size * size
