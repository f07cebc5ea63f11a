# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A decoder with one sequence in its KV cache, the same for PyTorch's and the native decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from memspec_ros.models.decoder import Decoder
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.native_decoder import NativeDecoder

_NO_LIMIT = 1 << 30


class RowDecoder(Protocol):
    """What :class:`~memspec_ros.models.fast_target.FastTarget` runs on.

    ``split_invariant``: a position's logits are the same bits however the tokens were split into
    passes. ``max_width``: most tokens in one pass.
    """

    config: DecoderConfig
    split_invariant: bool
    max_width: int
    hidden_dtype: torch.dtype
    device: torch.device

    def forward(self, token_ids: Sequence[int],
                num_logits: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Append tokens; return logits [num_logits, vocab] and hidden states [width, hidden].

        Both are valid until the next call.
        """

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` tokens."""

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV cache."""


class TorchRow:
    """One row of :class:`~memspec_ros.models.decoder.Decoder`."""

    split_invariant = False
    max_width = _NO_LIMIT

    def __init__(self, decoder: Decoder, *, context_tokens: int) -> None:
        self.decoder = decoder
        self.config = decoder.config
        self.hidden_dtype = decoder.dtype
        self.device = decoder.device
        self.kv_cache = decoder.make_kv_cache(context_tokens=context_tokens)

    def forward(self, token_ids: Sequence[int],
                num_logits: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Append tokens; see :meth:`RowDecoder.forward`."""
        batch = torch.tensor([token_ids], device=self.device)
        logits, hidden = self.decoder.forward(batch, self.kv_cache, num_logits)
        return logits[0], hidden[0]

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` tokens."""
        self.kv_cache.rollback(length)

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV cache."""
        return self.kv_cache.num_bytes


class NativeRow:
    """One row of :class:`~memspec_ros.models.native_decoder.NativeDecoder`."""

    split_invariant = True
    hidden_dtype = torch.float32
    device = torch.device('cpu')

    def __init__(self, decoder: NativeDecoder, *, context_tokens: int) -> None:
        self.decoder = decoder
        self.config = decoder.config
        self.max_width = decoder.max_width
        self.kv_cache = decoder.make_kv_cache(context_tokens=context_tokens)

    def forward(self, token_ids: Sequence[int],
                num_logits: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Append tokens; see :meth:`RowDecoder.forward`."""
        return self.decoder.forward(token_ids, self.kv_cache, num_logits)

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` tokens."""
        self.kv_cache.rollback(length)

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV cache."""
        return self.kv_cache.num_bytes
