# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The bounded, aligned windows of recent tokens that a draft looks at.

The token at position t is predicted from the tokens [start(t), t), where start depends on t
alone: with blocks of half the context, it is where the block before t's begins. So a prediction
never depends on when the draft was switched in, and once a block a window is begun anew. Two KV
caches take turns, so that a proposal which ran into the next block and was rejected finds the
window of the block before as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

MAX_PASS_TOKENS = 512
UNKNOWN = -1
NOWHERE = -1

Choose = Callable[[Sequence[int], Any, int], list[int]]


class Entries(Protocol):
    """A KV cache of whatever decoder: a cursor."""

    length: int

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` entries."""


class DraftWindow:
    """One window: the tokens fed, and what was predicted to follow each of them.

    :param kv_cache: holds entries of exactly ``tokens``.
    :param choose: appends tokens to the KV cache and returns the predictions after the last of
        them, as many as asked for.
    """

    def __init__(self, kv_cache: Entries, choose: Choose) -> None:
        self.start = 0
        self.tokens: list[int] = []
        self._predictions: list[int] = []
        self._kv_cache = kv_cache
        self._choose = choose

    def begin(self, start: int) -> None:
        """Empty the window and let it start at another position."""
        self.start = start
        self._rollback(0)

    def feed(self, tokens: Sequence[int], stop: int, first_wanted: int) -> None:
        """Make the window hold ``tokens[start:stop]``, feeding only what is missing.

        :param first_wanted: predictions are made for positions from this one to ``stop``.
        """
        wanted = list(tokens[self.start:stop])
        self._rollback(self._shared_length(wanted))
        while len(self.tokens) < len(wanted):
            chunk = wanted[len(self.tokens):len(self.tokens) + MAX_PASS_TOKENS]
            fed = self.start + len(self.tokens) + len(chunk)
            num_wanted = max(0, min(len(chunk), fed - first_wanted + 1))
            # The cursor of tokens must be that of the KV cache, or positions would be wrong.
            assert self._kv_cache.length == len(self.tokens)
            predictions = self._choose(chunk, self._kv_cache, num_wanted)
            self.tokens += chunk
            self._predictions += [UNKNOWN] * (len(chunk) - num_wanted) + predictions

    def prediction(self, position: int) -> int:
        """Return what was predicted for a position whose prefix was fed, or UNKNOWN."""
        return self._predictions[position - self.start - 1]

    def _shared_length(self, wanted: list[int]) -> int:
        """Return how many entries can stay; the last one only if its prediction is known."""
        shared = _shared_length(self.tokens, wanted)
        if shared == len(wanted) > 0 and self._predictions[shared - 1] == UNKNOWN:
            shared -= 1
        return shared

    def _rollback(self, length: int) -> None:
        del self.tokens[length:]
        del self._predictions[length:]
        self._kv_cache.rollback(length)


class DraftWindows:
    """The two windows of a draft, and the rule which of them predicts a position.

    :param context_tokens: most tokens that a prediction looks at; even.
    """

    def __init__(self, kv_caches: tuple[Entries, Entries], choose: Choose,
                 context_tokens: int) -> None:
        self._block_tokens = context_tokens // 2
        self._windows = tuple(DraftWindow(kv_cache, choose) for kv_cache in kv_caches)
        self.reset()

    def reset(self) -> None:
        """Forget all tokens."""
        for window in self._windows:
            window.begin(NOWHERE)

    def predict(self, tokens: Sequence[int]) -> int:
        """Return the prediction of what follows ``tokens`` (at least one)."""
        window = self._window(self._block(len(tokens)))
        window.feed(tokens, len(tokens), len(tokens))
        return window.prediction(len(tokens))

    def judge(self, tokens: Sequence[int], first: int) -> list[bool]:
        """Tell which of ``tokens[first:]`` would have been proposed; ``first`` is at least 1.

        In the same pass what follows ``tokens`` is predicted. The flags end with the last
        token; they begin later than ``first`` where telling would take a window that is no
        longer held.
        """
        block, length = self._block(len(tokens)), len(tokens)
        begin = block * self._block_tokens if block > 1 else 1
        flags = self._judge_before(tokens, first, begin) if first < begin else []
        window = self._window(block)
        window.feed(tokens, length, max(first, begin))
        return self._flags(window, tokens, range(max(first, begin), length), flags)

    def _judge_before(self, tokens: Sequence[int], first: int, stop: int) -> list[bool]:
        """Judge ``tokens[first:stop]``, which the window of the block before predicts."""
        block = self._block(stop - 1)
        window = self._windows[block % 2]
        if window.start != self._start(block):
            return []
        first = max(first, block * self._block_tokens if block > 1 else 1)
        window.feed(tokens, stop - 1, first)
        return self._flags(window, tokens, range(first, stop), [])

    @staticmethod
    def _flags(window: DraftWindow, tokens: Sequence[int], positions: range,
               flags: list[bool]) -> list[bool]:
        for position in positions:
            prediction = window.prediction(position)
            if prediction == UNKNOWN:
                flags = []
            else:
                flags.append(prediction == tokens[position])
        return flags

    def _block(self, position: int) -> int:
        """Return the block of a position; the first two blocks share a window."""
        return max(1, position // self._block_tokens)

    def _start(self, block: int) -> int:
        return (block - 1) * self._block_tokens

    def _window(self, block: int) -> DraftWindow:
        window = self._windows[block % 2]
        if window.start != self._start(block):
            window.begin(self._start(block))
        return window


def _shared_length(first: list[int], second: list[int]) -> int:
    if first == second[:len(first)]:
        return len(first)
    return next((index for index, (left, right) in enumerate(zip(first, second, strict=False))
                 if left != right), len(second))
