# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The independent draft: a small decoder of its own (the kind of draft that the paper has)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from memspec_ros.boundaries import TokenContext
from memspec_ros.models.draft_window import DraftWindows, Entries

MAX_JUDGED_TOKENS = 64


class DraftDecoder(Protocol):
    """A small decoder, on PyTorch or in the native library.

    ``num_embeddings``: rows of its embedding table.
    """

    num_embeddings: int

    def best_rows(self, token_ids: Sequence[int], kv_cache: Any, num_wanted: int,
                  num_rows: int) -> list[int]:
        """Append tokens; the most probable rows of the head after the last ``num_wanted``.

        :param num_rows: only the first so many rows are looked at.
        """


class IndependentDraft:
    """A small decoder as a :class:`~memspec_ros.boundaries.Draft`.

    It proposes its most probable token at each step, from a bounded window of recent tokens
    (draft_window.py).

    :param kv_caches: two, each of ``context_tokens`` entries.
    :param context_tokens: most tokens that a prediction looks at; rounded down to even.
    :param output_token_ids: [rows], the target's token for each row of the head; None when row
        and token are the same.
    """

    def __init__(self, name: str, decoder: DraftDecoder, *, kv_caches: tuple[Entries, Entries],
                 context_tokens: int, output_token_ids: torch.Tensor | None = None) -> None:
        self.name = name
        self._decoder = decoder
        self._output_token_ids = output_token_ids
        self._vocab_size = 0
        self._windows = DraftWindows(kv_caches, self._choose, context_tokens)
        self._judged: list[int] = []
        self._flags: deque[bool] = deque(maxlen=MAX_JUDGED_TOKENS)

    def reset(self) -> None:
        """Forget all tokens."""
        self._windows.reset()
        self._judged = []
        self._flags.clear()

    def catch_up(self, context: TokenContext) -> Sequence[bool]:
        """Feed what is missing; flags of committed positions, as the boundary says."""
        self._judge(context, list(context.tokens))
        flags = list(self._flags)
        self._flags.clear()
        return flags

    def propose(self, context: TokenContext, num_tokens: int) -> Sequence[int]:
        """Propose up to ``num_tokens``; fewer when an end token of the target would follow."""
        tokens = list(context.tokens)
        self._judge(context, tokens)
        length = len(tokens)
        for _ in range(num_tokens):
            token = self._windows.predict(tokens)
            if token in context.target.end_ids:
                break
            tokens.append(token)
        return tokens[length:]

    def _judge(self, context: TokenContext, tokens: list[int]) -> None:
        """Catch up, and keep the flags of positions not judged before until they are asked for."""
        self._vocab_size = context.target.vocab_size
        if tokens[:len(self._judged)] != self._judged:
            self._judged = []
            self._flags.clear()
        first = max(len(self._judged), context.prompt_length, len(tokens) - MAX_JUDGED_TOKENS, 1)
        self._flags.extend(self._windows.judge(tokens, first))
        self._judged = tokens[:]

    def _choose(self, token_ids: Sequence[int], kv_cache: Any, num_wanted: int) -> list[int]:
        """Append tokens to a KV cache; the most probable next tokens after the last ones."""
        # Targets pad their vocabulary, so ids that the draft's table lacks are never of text.
        last = self._decoder.num_embeddings - 1
        fed = [min(token, last) for token in token_ids]
        if self._output_token_ids is None:
            return self._decoder.best_rows(fed, kv_cache, num_wanted, self._vocab_size)
        rows = self._decoder.best_rows(fed, kv_cache, num_wanted, len(self._output_token_ids))
        return [int(token) for token in self._output_token_ids[rows].tolist()]
