# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Independent drafts in the native library, their matrices in the form that their slot has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.draft_file import OUTPUT_TOKEN_IDS
from memspec_ros.models.native_decoder import NativeDecoder, NativeKVCache
from memspec_ros.models.native_matrix import PackedMatrix
from memspec_ros.models.native_pool import shared_pool
from memspec_ros.models.native_weights import NativeLayer, NativeWeights
from memspec_ros.models.slot_forms import NativeForm

MAX_PASS_TOKENS = 64  # every draft takes the memory of a pass, so passes are not wide
KV_BLOCK = 64

Views = Mapping[str, torch.Tensor]
Forms = Mapping[str, NativeForm]
Pack = Callable[[str, int, int, int], PackedMatrix]


def native_kv_bytes(config: DecoderConfig, context_tokens: int) -> int:
    """Bytes of one KV cache, in float16."""
    return -(-context_tokens // KV_BLOCK) * KV_BLOCK * config.kv_bytes_per_token(2)


def native_kv_cache(config: DecoderConfig, memory: torch.Tensor,
                    context_tokens: int) -> NativeKVCache:
    """Return a KV cache over memory, uint8 of :func:`native_kv_bytes`."""
    shape = (2, config.num_layers, config.num_kv_heads, -1, config.head_dim)
    keys, values = memory.view(torch.float16).view(shape)
    return NativeKVCache.of(context_tokens, keys, values)


def native_weights(config: DecoderConfig, views: Views, forms: Forms, *,
                   num_tokens: int) -> NativeWeights:
    """Describe a draft's weights in a slot to the library; nothing is copied.

    :param views: norms and biases in float32, matrices packed in their ``forms``.
    :param num_tokens: the target's vocabulary, beyond which an untrimmed head has no rows.
    """
    def packed(name: str, columns: int, first_row: int, num_rows: int) -> PackedMatrix:
        return forms[name].packed(views[name], columns, first_row, num_rows)

    hidden = config.hidden_size
    trimmed = views.get(OUTPUT_TOKEN_IDS)
    rows = min(config.vocab_size, num_tokens) if trimmed is None else trimmed.numel()
    head = packed('embedding' if config.tied_head else 'head', hidden, 0, rows)
    return NativeWeights(
        layers=tuple(_layer(config, views, f'layers.{index}', packed)
                     for index in range(config.num_layers)),
        final_norm=views['final_norm'], head=head,
        embedding=packed('embedding', hidden, 0, config.vocab_size))


def _layer(config: DecoderConfig, views: Views, name: str, packed: Pack) -> NativeLayer:
    hidden, inner = config.hidden_size, config.intermediate_size
    query, kv = config.query_size, config.kv_size
    bias = views.get(f'{name}.qkv_bias')
    parts = (None, None, None) if bias is None else torch.split(bias, [query, kv, kv])
    return NativeLayer(
        attention_norm=views[f'{name}.attention_norm'], mlp_norm=views[f'{name}.mlp_norm'],
        query=packed(f'{name}.qkv', hidden, 0, query),
        key=packed(f'{name}.qkv', hidden, query, kv),
        value=packed(f'{name}.qkv', hidden, query + kv, kv),
        output=packed(f'{name}.output', query, 0, hidden),
        gate=packed(f'{name}.gate_up', hidden, 0, inner),
        up=packed(f'{name}.gate_up', hidden, inner, inner),
        down=packed(f'{name}.down', inner, 0, hidden),
        query_bias=parts[0], key_bias=parts[1], value_bias=parts[2])


class NativeDraftDecoder:
    """A native decoder as an independent draft needs it.

    Its head has no rows beyond the target's vocabulary.
    """

    def __init__(self, config: DecoderConfig, weights: NativeWeights, *, context_tokens: int,
                 num_threads: int) -> None:
        self.num_embeddings = config.vocab_size
        self._decoder = NativeDecoder(
            config, weights, context_tokens=context_tokens, pool=shared_pool(num_threads),
            max_width=min(MAX_PASS_TOKENS, context_tokens))

    def best_rows(self, token_ids: Sequence[int], kv_cache: NativeKVCache, num_wanted: int,
                  num_rows: int) -> list[int]:
        """Append tokens; the most probable rows of the head after the last ``num_wanted``."""
        del num_rows
        rows: list[int] = []
        width, length = self._decoder.max_width, len(token_ids)
        for begin in range(0, length, width):
            end = min(begin + width, length)
            wanted = max(0, end - max(begin, length - num_wanted))
            rows += self._decoder.best_tokens(token_ids[begin:end], kv_cache, wanted)[0]
        return rows
