# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The target on the fast decoder, with the KV cache it owns."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from memspec_ros.models.hidden_ring import HiddenRing
from memspec_ros.models.row_decoders import RowDecoder
from memspec_ros.models.target_checks import check_extend, check_rollback

# Tokens per pass in deterministic mode: the longest draft and the token before it.
BLOCK_TOKENS = 16


class FastTarget:
    """A :class:`~memspec_ros.boundaries.Target` on the fast decoder, eager or native.

    :param row: the decoder with its KV cache, which has room for ``context_tokens`` rounded up
        to a multiple of 16.
    :param end_ids: tokens that end an answer.
    :param deterministic: run every pass over one whole block of 16 positions, so that a
        position's logits are the same bits however the tokens were split into passes. A row
        decoder that promises that anyway runs as usual.

    A block's pass has one width, a token's row in it and the number of keys it attends over are
    functions of its position alone; tokens of the block that are in the KV cache already are
    computed again, to the same bits.
    """

    def __init__(self, row: RowDecoder, *, context_tokens: int,
                 end_ids: frozenset[int] = frozenset(), deterministic: bool = False) -> None:
        self.vocab_size = row.config.vocab_size
        self.context_tokens = context_tokens
        self.end_ids = end_ids
        self.length = 0
        self._row = row
        self._in_blocks = deterministic and not row.split_invariant
        self._ring = HiddenRing(context_tokens=context_tokens, dtype=row.hidden_dtype,
                                hidden_size=row.config.hidden_size, device=row.device)
        self._tokens: list[int] = []  # what the KV cache holds, for blocks to be run again

    @property
    def first_hidden(self) -> int:
        """The oldest position whose hidden state is kept."""
        return self._ring.first

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV cache and of the ring of hidden states."""
        return self._row.kv_bytes + self._ring.num_bytes

    @torch.inference_mode()
    def extend(self, token_ids: Sequence[int], num_logits: int) -> torch.Tensor:
        """Append tokens and return the logits after the last ``num_logits``: [num_logits, vocab].

        :raises ModelError: the context would overflow, a token is not in the vocabulary, or
            ``num_logits`` is out of range.
        """
        check_extend(self, token_ids, num_logits)
        start, stop = self.length, self.length + len(token_ids)
        parts = []
        for begin, end in self._passes(start, stop):
            wanted = max(0, end - max(begin, stop - num_logits))
            run = self._run_block if self._in_blocks else self._run
            logits = run(token_ids[begin - start:end - start], wanted)
            parts.append(logits if end == stop else logits.clone())
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` entries.

        :raises ModelError: ``length`` is negative or beyond the cursor.
        """
        check_rollback(self, length)
        self._row.rollback(length)
        self._ring.rollback(length)
        self.length = length
        del self._tokens[length:]

    def hidden_states(self, start: int, stop: int) -> torch.Tensor:
        """Return last hidden states of positions ``start`` to ``stop - 1``, a view.

        :raises ModelError: some of them are not kept.
        """
        return self._ring.view(start, stop)

    def _passes(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return begin and end of each pass: blocks, or as wide as the decoder takes."""
        width = BLOCK_TOKENS if self._in_blocks else self._row.max_width
        offset = start % BLOCK_TOKENS if self._in_blocks else 0
        return [(max(begin, start), min(begin + width, stop))
                for begin in range(start - offset, stop, width)]

    def _run(self, token_ids: Sequence[int], num_logits: int) -> torch.Tensor:
        logits, hidden = self._row.forward(token_ids, num_logits)
        self._ring.append(hidden)
        self.length += len(token_ids)
        return logits

    def _run_block(self, token_ids: Sequence[int], num_logits: int) -> torch.Tensor:
        """Add tokens to the block that ``length`` lies in, and run all of that block."""
        start, stop = self.length, self.length + len(token_ids)
        begin = start - start % BLOCK_TOKENS
        self._tokens += token_ids
        padding = [0] * (begin + BLOCK_TOKENS - stop)
        self._row.rollback(begin)
        logits, hidden = self._row.forward(self._tokens[begin:] + padding,
                                           BLOCK_TOKENS if num_logits else 0)
        self._row.rollback(stop)
        self._ring.append(hidden[start - begin:stop - begin])
        self.length = stop
        return logits[stop - begin - num_logits:stop - begin] if num_logits else logits
