# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of sequences on the native decoder.

What a row yields is, bit for bit, what the serving loop yields in the same form: a pass over many
sequences computes each row as a pass over one sequence does.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.native_decoder import NativeDecoder, NativeKVCaches
from memspec_ros.models.native_pool import shared_pool
from memspec_ros.models.native_weights import NativeWeights


class NativeRows:
    """As :class:`~memspec_ros.training.batch_decode.Rows` says."""

    pass_sequences = 1

    def __init__(self, config: DecoderConfig, weights: NativeWeights, *, num_rows: int,
                 capacity: int, num_threads: int, kv_dtype: torch.dtype) -> None:
        self.num_rows, self.capacity = num_rows, capacity
        self.hidden_size = config.hidden_size
        self._decoder = NativeDecoder(config, weights, context_tokens=capacity,
                                      pool=shared_pool(num_threads),
                                      max_width=max(capacity, num_rows), kv_dtype=kv_dtype)
        self._caches = NativeKVCaches(config, count=num_rows, context_tokens=capacity,
                                      dtype=kv_dtype)
        self._num_shared = 0

    def share(self, tokens: Sequence[int]) -> torch.Tensor:
        self._num_shared = 0
        if not tokens:
            return torch.zeros(0, self.hidden_size)
        states = self.extend([tokens], 0, with_logits=False)[0][0]
        self._num_shared = len(tokens)
        for slot in range(1, self.num_rows):
            self.move(0, slot, len(tokens))
        return states

    def extend(self, sequences: Sequence[Sequence[int]], slot: int, *,
               with_logits: bool) -> tuple[list[torch.Tensor], torch.Tensor | None]:
        hidden, last = [], []
        for place, sequence in enumerate(sequences, slot):
            cache = self._caches[place]
            cache.length = self._num_shared
            logits, states = self._decoder.forward(sequence[self._num_shared:], cache,
                                                   int(with_logits))
            hidden.append(states.clone())
            last.append(logits.clone())
        return hidden, torch.cat(last) if with_logits else None

    def advance(self, tokens: Sequence[int],
                lengths: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        for slot, length in enumerate(lengths):
            self._caches[slot].length = length
        logits, hidden = self._decoder.forward_rows(tokens, self._caches, range(len(tokens)))
        return hidden, logits

    def move(self, source: int, slot: int, length: int) -> None:
        # Keys lie in blocks of 16 positions, [head_dim, 16] each: whole blocks are copied.
        stop = -(-length // 16) * 16
        for buffer in (self._caches.keys, self._caches.values):
            buffer[slot, :, :, :stop] = buffer[source, :, :, :stop]
