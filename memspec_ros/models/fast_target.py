# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The target on the fast decoder, with the KV cache it owns."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from memspec_ros.errors import ModelError
from memspec_ros.models.decoder import Decoder
from memspec_ros.models.hidden_ring import HiddenRing

# Tokens per pass in deterministic mode: the longest draft and the token before it.
BLOCK_TOKENS = 16


class FastTarget:
    """A :class:`~memspec_ros.boundaries.Target` on :class:`~memspec_ros.models.decoder.Decoder`.

    :param end_ids: tokens that end an answer.
    :param deterministic: run every pass over one whole block of 16 positions, so that a
        position's logits are the same bits however the tokens were split into passes.

    A block's pass has one width, a token's row in it and the number of keys it attends over are
    functions of its position alone; tokens of the block that are in the KV cache already are
    computed again, to the same bits.
    """

    def __init__(self, decoder: Decoder, *, context_tokens: int,
                 end_ids: frozenset[int] = frozenset(), deterministic: bool = False) -> None:
        self.decoder = decoder
        self.vocab_size = decoder.config.vocab_size
        self.context_tokens = context_tokens
        self.end_ids = end_ids
        self._deterministic = deterministic
        self._kv_cache = decoder.make_kv_cache(
            context_tokens=-(-context_tokens // BLOCK_TOKENS) * BLOCK_TOKENS)
        self._ring = HiddenRing(context_tokens=context_tokens, dtype=decoder.dtype,
                                hidden_size=decoder.config.hidden_size, device=decoder.device)
        self._tokens: list[int] = []  # what the KV cache holds, for blocks to be run again
        self.length = 0

    @property
    def first_hidden(self) -> int:
        """The oldest position whose hidden state is kept."""
        return self._ring.first

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV cache and of the ring of hidden states."""
        return self._kv_cache.num_bytes + self._ring.num_bytes

    @torch.inference_mode()
    def extend(self, token_ids: Sequence[int], num_logits: int) -> torch.Tensor:
        """Append tokens and return the logits after the last ``num_logits``: [num_logits, vocab].

        :raises ModelError: the context would overflow, a token is not in the vocabulary, or
            ``num_logits`` is out of range.
        """
        self._check(token_ids, num_logits)
        if self._deterministic:
            return self._extend_in_blocks(token_ids, num_logits)
        logits, hidden = self._forward(token_ids, num_logits)
        self._ring.append(hidden)
        self.length += len(token_ids)
        return logits

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` entries.

        :raises ModelError: ``length`` is negative or beyond the cursor.
        """
        self._kv_cache.rollback(length)
        self._ring.rollback(length)
        self.length = length
        del self._tokens[length:]

    def hidden_states(self, start: int, stop: int) -> torch.Tensor:
        """Return last hidden states of positions ``start`` to ``stop - 1``, a view.

        :raises ModelError: some of them are not kept.
        """
        return self._ring.view(start, stop)

    def _check(self, token_ids: Sequence[int], num_logits: int) -> None:
        if not token_ids or not 0 <= num_logits <= len(token_ids):
            raise ModelError(f'{num_logits} logits of {len(token_ids)} tokens were asked for')
        if self.length + len(token_ids) > self.context_tokens:
            raise ModelError(f'{self.length} tokens in the KV cache and {len(token_ids)} more '
                             f'pass the context of {self.context_tokens}')
        if not 0 <= min(token_ids) <= max(token_ids) < self.vocab_size:
            raise ModelError(f'token {min(token_ids)} or {max(token_ids)} is not in the '
                             f'vocabulary of {self.vocab_size}')

    def _forward(self, token_ids: Sequence[int],
                 num_logits: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits [num_logits, vocab] and hidden states [width, hidden] of one pass."""
        batch = torch.tensor([token_ids], device=self.decoder.device)
        logits, hidden = self.decoder.forward(batch, self._kv_cache, num_logits)
        return logits[0], hidden[0]

    def _extend_in_blocks(self, token_ids: Sequence[int], num_logits: int) -> torch.Tensor:
        start, stop = self.length, self.length + len(token_ids)
        first_logits = stop - num_logits
        parts = []
        for begin in range(start - start % BLOCK_TOKENS, stop, BLOCK_TOKENS):
            end = min(begin + BLOCK_TOKENS, stop)
            logits = self._pass_over_block(token_ids[max(begin - start, 0):end - start], begin,
                                           with_logits=end > first_logits)
            parts.append(logits[max(first_logits - begin, 0):end - begin])
        return torch.cat(parts)

    def _pass_over_block(self, token_ids: Sequence[int], begin: int, *,
                         with_logits: bool) -> torch.Tensor:
        """Add tokens to the block that begins at ``begin``; return its logits, or no rows."""
        start, stop = self.length, self.length + len(token_ids)
        self._tokens += token_ids
        padding = [0] * (begin + BLOCK_TOKENS - stop)
        self._kv_cache.rollback(begin)
        logits, hidden = self._forward(self._tokens[begin:] + padding,
                                       BLOCK_TOKENS if with_logits else 0)
        self._kv_cache.rollback(stop)
        self._ring.append(hidden[start - begin:stop - begin])
        self.length = stop
        return logits
