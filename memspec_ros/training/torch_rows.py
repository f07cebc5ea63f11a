# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of sequences on PyTorch: one fp32 forward over rows of different lengths."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional

from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.weights import DecoderWeights, LayerWeights


class TorchRows:
    """As :class:`~memspec_ros.training.batch_decode.Rows` says.

    :param weights: the target's, in fp32.
    """

    pass_sequences = 8

    def __init__(self, config: DecoderConfig, weights: DecoderWeights, *, num_rows: int,
                 capacity: int) -> None:
        self._config = config
        self._weights = weights
        self.capacity = capacity
        self.hidden_size = config.hidden_size
        shape = (config.num_layers, num_rows, config.num_kv_heads, capacity, config.head_dim)
        self.num_rows = num_rows
        self._keys = torch.zeros(shape)      # [layers, rows, kv_heads, capacity, head]
        self._values = torch.zeros(shape)
        self._cos, self._sin = _rotary_tables(config, capacity)
        self._num_shared = 0

    def share(self, tokens: Sequence[int]) -> torch.Tensor:
        self._num_shared = 0
        if not tokens:
            return torch.zeros(0, self.hidden_size)
        states = self._run([tokens], 0)[0]
        self._num_shared = len(tokens)
        for buffer in (self._keys, self._values):
            buffer[:, 1:, :, :len(tokens)] = buffer[:, :1, :, :len(tokens)]
        return states

    def extend(self, sequences: Sequence[Sequence[int]], slot: int, *,
               with_logits: bool) -> tuple[list[torch.Tensor], torch.Tensor | None]:
        states = self._run(sequences, slot)
        last = torch.stack([part[-1] for part in states]) if with_logits else None
        return states, None if last is None else self._weights.head(last)

    def advance(self, tokens: Sequence[int],
                lengths: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self._advance(torch.tensor(tokens), torch.tensor(lengths))
        return hidden, self._weights.head(hidden)

    def move(self, source: int, slot: int, length: int) -> None:
        for buffer in (self._keys, self._values):
            buffer[:, slot, :, :length] = buffer[:, source, :, :length]

    def _advance(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """One token for each row. tokens, positions: [rows] -> [rows, hidden]."""
        config, weights, num = self._config, self._weights, len(tokens)
        stop = int(positions.max()) + 1
        slots = torch.arange(num)
        mask = torch.arange(stop) <= positions[:, None]                   # [rows, stop]
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        x = weights.embedding[tokens]
        for number, layer in enumerate(weights.layers):
            query, key, value = self._project(layer, x)   # [rows, heads or kv_heads, head]
            keys, values = self._keys[number], self._values[number]
            keys[slots, :, positions] = _rotate(key, cos, sin)
            values[slots, :, positions] = value
            query = _rotate(query, cos, sin).view(num, config.num_kv_heads, -1, config.head_dim)
            mixed = functional.scaled_dot_product_attention(
                query, keys[:num, :, :stop], values[:num, :, :stop],
                attn_mask=mask[:, None, None])
            x = _finish_layer(config, layer, x, mixed.reshape(num, -1))
        return _norm(x, weights.final_norm, config.norm_epsilon)

    def _run(self, sequences: Sequence[Sequence[int]], slot: int) -> list[torch.Tensor]:
        """Fill the slots from ``slot`` on. Returns [tokens, hidden] for each sequence."""
        config, weights, shared = self._config, self._weights, self._num_shared
        lengths = [len(sequence) - shared for sequence in sequences]
        tokens = torch.tensor([token for sequence in sequences for token in sequence[shared:]])
        positions = torch.cat([torch.arange(shared, shared + length) for length in lengths])
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        masks = [torch.arange(shared + n) <= torch.arange(shared, shared + n)[:, None]
                 for n in lengths]
        x = weights.embedding[tokens]
        for number, layer in enumerate(weights.layers):
            query, key, value = self._project(layer, x)
            parts = zip(_rotate(query, cos, sin).split_with_sizes(lengths),
                        _rotate(key, cos, sin).split_with_sizes(lengths),
                        value.split_with_sizes(lengths), masks, strict=True)
            mixed = torch.cat([self._attend(number, slot + row, *part)
                               for row, part in enumerate(parts)])
            x = _finish_layer(config, layer, x, mixed)
        hidden = _norm(x, weights.final_norm, config.norm_epsilon).split_with_sizes(lengths)
        return list(hidden)

    def _attend(self, number: int, slot: int, query: torch.Tensor, key: torch.Tensor,
                value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Attention of one sequence's tokens. query: [tokens, heads, head]."""
        stop = mask.shape[1]
        keys, values = self._keys[number, slot], self._values[number, slot]
        keys[:, stop - len(key):stop] = key.transpose(0, 1)
        values[:, stop - len(key):stop] = value.transpose(0, 1)
        groups = self._config.num_heads // self._config.num_kv_heads
        mixed = functional.scaled_dot_product_attention(
            query.transpose(0, 1)[None], keys[None, :, :stop].repeat_interleave(groups, 1),
            values[None, :, :stop].repeat_interleave(groups, 1), attn_mask=mask)
        return mixed[0].transpose(0, 1).flatten(1)

    def _project(self, layer: LayerWeights,
                 x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        config = self._config
        fused = layer.qkv(_norm(x, layer.attention_norm, config.norm_epsilon))
        query, key, value = fused.view(len(x), -1, config.head_dim).split_with_sizes(
            (config.num_heads, config.num_kv_heads, config.num_kv_heads), 1)
        return query, key, value


def _finish_layer(config: DecoderConfig, layer: LayerWeights, x: torch.Tensor,
                  mixed: torch.Tensor) -> torch.Tensor:
    x = x + layer.output(mixed)
    gate, up = layer.gate_up(_norm(x, layer.mlp_norm, config.norm_epsilon)).chunk(2, -1)
    return x + layer.down(functional.silu(gate) * up)


def _norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    return functional.rms_norm(x, (x.shape[-1],), weight, epsilon)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding, halves rotated against each other. x: [..., head]."""
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


def _rotary_tables(config: DecoderConfig, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
    rates = torch.tensor(config.rope.inverse_frequencies(config.head_dim), dtype=torch.float64)
    angles = torch.arange(capacity, dtype=torch.float64)[:, None] * rates
    return angles.cos().float(), angles.sin().float()
