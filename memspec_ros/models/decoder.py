# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The decoder-only forward pass of the Llama and Qwen2 families.

RMSNorm, rotary embedding, grouped-query attention and a gated MLP, with fused qkv and gate/up
projections over a static KV cache. What does not depend on the layer (rotary rows, the mask) is
made once per pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn import functional

from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.kv_cache import KVCache
from memspec_ros.models.weights import ACTIVATION_DTYPES, DecoderWeights, LayerWeights


class _Entries(Protocol):
    """Where a pass leaves its keys and values, and what it attends over."""

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor,
              positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store one layer's entries; see :meth:`KVCache.write`."""


class _WholeEntries:
    """A KV cache of one row that is written at positions and returned whole."""

    def __init__(self, kv_cache: KVCache) -> None:
        self._kv_cache = kv_cache

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor,
              positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store one layer's entries."""
        all_keys, all_values = self._kv_cache.keys[layer], self._kv_cache.values[layer]
        all_keys.index_copy_(2, positions[0], keys.transpose(1, 2))
        all_values.index_copy_(2, positions[0], values.transpose(1, 2))
        return all_keys, all_values


@dataclass(frozen=True, kw_only=True)
class _Pass:
    """What all layers of one pass share.

    ``cosines`` and ``sines`` are [1 or batch, width, 1, head_dim], ``mask`` is
    [1 or batch, 1, 1 or group * width, live] or None when every token sees all entries.
    """

    kv_cache: _Entries
    positions: torch.Tensor
    cosines: torch.Tensor
    sines: torch.Tensor
    mask: torch.Tensor | None


class Decoder:
    """A decoder with its weights.

    :param context_tokens: longest position served, for the rotary table; None takes the model's.
    """

    def __init__(self, config: DecoderConfig, weights: DecoderWeights, *,
                 context_tokens: int | None = None) -> None:
        self.config = config
        self.weights = weights
        self.dtype = ACTIVATION_DTYPES[weights.dtype]
        self.device = weights.embedding.device
        self.num_embeddings = len(weights.embedding)
        self._cosines, self._sines = _rotary_table(
            config, context_tokens or config.max_context_tokens, self.dtype, self.device)

    def make_kv_cache(self, *, context_tokens: int, batch: int = 1) -> KVCache:
        """Return a KV cache in this decoder's dtype and on its device."""
        return KVCache(self.config, context_tokens=context_tokens, batch=batch,
                       dtype=self.dtype, device=self.device)

    @torch.inference_mode()
    def forward(self, token_ids: torch.Tensor, kv_cache: KVCache,
                num_logits: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Append tokens to the KV cache and return logits and last hidden states.

        Shorter rows of a batch are padded on the right and rolled back afterwards
        (:meth:`KVCache.rollback_rows`); causality keeps the padding out of the others' sight.

        :param token_ids: [batch, width] integers.
        :param num_logits: how many of the last positions get logits, 0 to width.
        :returns: logits [batch, num_logits, vocab_size] and hidden states after the final norm
            [batch, width, hidden].
        :raises ModelError: the KV cache would overflow.
        """
        width = token_ids.shape[1]
        kv_cache.check_room(width)
        hidden = self._layers(token_ids, self._begin(kv_cache, width))
        kv_cache.advance(width)
        return self.logits(hidden[:, width - num_logits:]), hidden

    def forward_at(self, token_ids: torch.Tensor, positions: torch.Tensor,
                   kv_cache: KVCache) -> tuple[torch.Tensor, torch.Tensor]:
        """Run tokens at given positions, over the whole KV cache under a mask.

        No shape and no value of the host depends on the cursor, which is left alone: so the
        pass can be captured once and replayed at other positions.

        :param token_ids: [1, width] integers; ``positions`` likewise.
        :returns: logits [1, width, vocab_size] and hidden states [1, width, hidden].
        """
        entries = torch.arange(kv_cache.context_tokens, device=self.device)
        group = self.config.num_heads // self.config.num_kv_heads
        mask = (entries <= positions[..., None])[:, None].repeat(1, 1, group, 1)
        hidden = self._layers(token_ids, _Pass(
            kv_cache=_WholeEntries(kv_cache), positions=positions, mask=mask,
            cosines=self._cosines[positions][:, :, None],
            sines=self._sines[positions][:, :, None]))
        return self.logits(hidden), hidden

    def _layers(self, token_ids: torch.Tensor, shared: _Pass) -> torch.Tensor:
        states = self.embed(token_ids).to(self.dtype)
        for index, layer in enumerate(self.weights.layers):
            states = self._attend(index, layer, states, shared)
            states = self._mlp(layer, states)
        return self._norm(states, self.weights.final_norm)

    def best_rows(self, token_ids: Sequence[int], kv_cache: KVCache, num_wanted: int,
                  num_rows: int) -> list[int]:
        """Append tokens of one sequence; the ids of the largest of the first logits.

        :param num_wanted: how many of the last positions are looked at.
        :param num_rows: how many logits are.
        """
        batch = torch.tensor([token_ids], device=self.device)
        logits, _ = self.forward(batch, kv_cache, num_wanted)
        if num_wanted == 0:
            return []
        return [int(row) for row in logits[0, :, :num_rows].argmax(-1).tolist()]

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Look tokens up: [batch, width] integers to [batch, width, hidden]."""
        return functional.embedding(token_ids, self.weights.embedding)

    @torch.inference_mode()
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Apply the head to last hidden states: [..., hidden] to [..., vocab_size]."""
        return self.weights.head(hidden.to(self.weights.embedding.dtype))

    def _begin(self, kv_cache: KVCache, width: int) -> _Pass:
        positions = kv_cache.positions(width)
        mask = None
        if width > 1 or kv_cache.row_lengths is not None:
            live = torch.arange(kv_cache.length + width, device=self.device)
            group = self.config.num_heads // self.config.num_kv_heads
            mask = (live <= positions[..., None])[:, None].repeat(1, 1, group, 1)
        return _Pass(kv_cache=kv_cache, positions=positions, mask=mask,
                     cosines=self._cosines[positions][:, :, None],
                     sines=self._sines[positions][:, :, None])

    def _norm(self, states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(states, weight.shape, weight, self.config.norm_epsilon)

    def _attend(self, index: int, layer: LayerWeights, states: torch.Tensor,
                shared: _Pass) -> torch.Tensor:
        batch, width, _ = states.shape
        config = self.config
        heads = layer.qkv(self._norm(states, layer.attention_norm)).view(
            batch, width, config.num_heads + 2 * config.num_kv_heads, config.head_dim)
        turned = _rotate(heads[:, :, :-config.num_kv_heads], shared.cosines, shared.sines)
        keys, values = shared.kv_cache.write(
            index, turned[:, :, config.num_heads:], heads[:, :, -config.num_kv_heads:],
            shared.positions)
        mixed = _grouped_attention(turned[:, :, :config.num_heads], keys, values, shared.mask)
        return states + layer.output(mixed)

    def _mlp(self, layer: LayerWeights, states: torch.Tensor) -> torch.Tensor:
        gate, up = layer.gate_up(self._norm(states, layer.mlp_norm)).chunk(2, dim=-1)
        return states + layer.down(functional.silu(gate) * up)


def _rotary_table(config: DecoderConfig, context_tokens: int, dtype: torch.dtype,
                  device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines and sines, [context_tokens, head_dim], the sines signed for `_rotate`."""
    frequencies = torch.tensor(config.rope.inverse_frequencies(config.head_dim),
                               dtype=torch.float32)
    angles = torch.outer(torch.arange(context_tokens, dtype=torch.float32), frequencies)
    cosines = torch.cat((angles.cos(), angles.cos()), dim=-1)
    sines = torch.cat((-angles.sin(), angles.sin()), dim=-1)
    return cosines.to(device, dtype), sines.to(device, dtype)


def _rotate(heads: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Turn each head's halves by the position's angles: [batch, width, heads, head_dim]."""
    return heads * cosines + heads.roll(heads.shape[-1] // 2, dims=-1) * sines


def _grouped_attention(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor,
                       mask: torch.Tensor | None) -> torch.Tensor:
    """Attend with the heads that share a KV head laid along the query axis.

    :param queries: [batch, width, heads, head_dim].
    :param keys: [batch, kv_heads, live, head_dim], ``values`` likewise.
    :returns: [batch, width, heads * head_dim].
    """
    batch, width, num_heads, head_dim = queries.shape
    kv_heads = keys.shape[1]
    grouped = queries.view(batch, width, kv_heads, -1, head_dim).permute(0, 2, 3, 1, 4)
    mixed = functional.scaled_dot_product_attention(
        grouped.reshape(batch, kv_heads, -1, head_dim), keys, values, attn_mask=mask)
    return mixed.view(batch, kv_heads, -1, width, head_dim).permute(0, 3, 1, 2, 4).reshape(
        batch, width, num_heads * head_dim)
