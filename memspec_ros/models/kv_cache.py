# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Static KV cache: allocated once, rolled back by moving a cursor."""

from __future__ import annotations

import math

import torch

from memspec_ros.errors import ModelError
from memspec_ros.models.decoder_config import DecoderConfig


class KVCache:
    """Keys and values of all layers, for ``batch`` rows of up to ``context_tokens`` tokens.

    ``length`` is the cursor: entries before it are live, what lies behind it is garbage that
    the next pass overwrites. With several rows (corpus making), :meth:`rollback_rows` gives each
    row its own cursor, and ``length`` is the largest of them.

    :param memory: flat uint8 memory to lie in, of at least the bytes needed (the drafts that
        take turns in a slot share it); None allocates.
    """

    def __init__(self, config: DecoderConfig, *, context_tokens: int, batch: int = 1,
                 dtype: torch.dtype = torch.float32, device: str | torch.device = 'cpu',
                 memory: torch.Tensor | None = None) -> None:
        shape = (2, config.num_layers, batch, config.num_kv_heads, context_tokens,
                 config.head_dim)
        if memory is None:
            both = torch.zeros(shape, dtype=dtype, device=device)
        else:
            both = memory[:math.prod(shape) * dtype.itemsize].view(dtype).view(shape)
        self.keys, self.values = both[0], both[1]
        self.batch = batch
        self.context_tokens = context_tokens
        self.length = 0
        self.row_lengths: torch.Tensor | None = None
        self._rows = torch.arange(batch, device=device)[:, None]

    @property
    def num_bytes(self) -> int:
        """Bytes allocated."""
        return 2 * self.keys.numel() * self.keys.element_size()

    def check_room(self, width: int) -> None:
        """Raise when ``width`` more tokens do not fit.

        :raises ModelError: with the numbers.
        """
        if self.length + width > self.context_tokens:
            raise ModelError(f'{self.length} tokens in the KV cache and {width} more pass its '
                             f'{self.context_tokens} context tokens')

    def positions(self, width: int) -> torch.Tensor:
        """Positions that the next ``width`` tokens take: [1 or batch, width]."""
        steps = torch.arange(width, device=self.keys.device)[None]
        return steps + (self.length if self.row_lengths is None else self.row_lengths[:, None])

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor,
              positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store one layer's entries behind the cursor, which stays where it is.

        :param keys: [batch, width, kv_heads, head_dim], ``values`` likewise.
        :param positions: what :meth:`positions` returned for this pass.
        :returns: keys and values of the live part and the new tokens, views of
            [batch, kv_heads, length + width, head_dim].
        """
        stop = self.length + keys.shape[1]
        all_keys, all_values = self.keys[layer], self.values[layer]
        if self.row_lengths is None:
            all_keys[:, :, self.length:stop] = keys.transpose(1, 2)
            all_values[:, :, self.length:stop] = values.transpose(1, 2)
        else:
            all_keys[self._rows, :, positions] = keys
            all_values[self._rows, :, positions] = values
        return all_keys[:, :, :stop], all_values[:, :, :stop]

    def advance(self, width: int) -> None:
        """Move the cursor (of every row) over the ``width`` tokens just written."""
        self.length += width
        if self.row_lengths is not None:
            self.row_lengths += width

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` tokens of every row.

        :raises ModelError: ``length`` is negative or beyond the cursor.
        """
        if not 0 <= length <= self.length:
            raise ModelError(f'cannot roll the KV cache back to {length}: it holds '
                             f'{self.length} tokens')
        self.length = length
        if self.row_lengths is not None:
            self.row_lengths.clamp_(max=length)

    def rollback_rows(self, lengths: torch.Tensor) -> None:
        """Keep the first ``lengths[row]`` tokens of each row.

        :param lengths: [batch] integers, each at most that row's cursor.
        :raises ModelError: a length is negative or beyond its row's cursor.
        """
        limits = self.row_lengths if self.row_lengths is not None else \
            torch.full((self.batch,), self.length, device=self.keys.device)
        lengths = lengths.to(limits)
        if bool(((lengths < 0) | (lengths > limits)).any()):
            raise ModelError(f'cannot roll rows back to {lengths.tolist()}: they hold '
                             f'{limits.tolist()} tokens')
        self.row_lengths = lengths.clone()
        self.length = int(lengths.max())
