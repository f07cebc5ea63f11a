# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bringing a prompt into the target's KV cache, in chunks, reusing what is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from memspec_ros.boundaries import Target


class Prefill:
    """Feeds prompts to the target and remembers what its KV cache holds.

    The last prompt token is left to the first iteration, so that every output token comes out of
    the same loop. Goals that share a prefix (robots repeat their system prompt) reuse its entries.

    :param chunk_tokens: tokens per pass; between passes a goal can be cancelled.
    """

    def __init__(self, target: Target, chunk_tokens: int) -> None:
        self._target = target
        self._chunk_tokens = chunk_tokens
        self._held: list[int] = []

    def forget(self) -> None:
        """Let the next prompt start from an empty KV cache."""
        self._held.clear()

    def hold(self, tokens: Sequence[int]) -> None:
        """Note what the KV cache holds now that a goal has ended."""
        self._held = list(tokens[:self._target.length])

    def begin(self, prompt: Sequence[int]) -> int:
        """Roll back to the prefix shared with the last goal and return its length."""
        pairs = zip(self._held[:self._target.length], prompt[:-1], strict=False)
        num_reused = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        self._target.rollback(num_reused)
        return num_reused

    def run(self, prompt: Sequence[int]) -> Iterator[int]:
        """Feed what is missing, one chunk a step; yield how many prompt tokens are in.

        Chunks end at multiples of the chunk size, so that a reused prefix changes no boundary.
        """
        last = len(prompt) - 1
        while (start := self._target.length) < last:
            stop = min(last, (start // self._chunk_tokens + 1) * self._chunk_tokens)
            self._target.extend(prompt[start:stop], 0)
            self._held = list(prompt[:stop])
            yield stop
