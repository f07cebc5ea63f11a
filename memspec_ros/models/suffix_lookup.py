# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The exact look-up that a feature-conditioned draft copies from.

For each position: the longest suffix of the tokens so far (up to four) that occurred before,
and the token that followed its latest occurrence.
"""

from __future__ import annotations

from collections.abc import Sequence

from memspec_ros.models.feature_network import MAX_MATCH


class SuffixLookup:
    """Continuations of every suffix seen, for one growing (and rolled back) sequence."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._follower: list[dict[tuple[int, ...], int]] = [{} for _ in range(MAX_MATCH)]
        self._undo: list[list[int | None]] = []

    def __len__(self) -> int:
        return len(self._tokens)

    def append(self, token: int) -> None:
        """Add a token: it now follows each of the suffixes before it."""
        before = self._tokens
        undo: list[int | None] = []
        for size in range(1, min(MAX_MATCH, len(before)) + 1):
            suffix, followers = tuple(before[-size:]), self._follower[size - 1]
            undo.append(followers.get(suffix))
            followers[suffix] = token
        self._undo.append(undo)
        before.append(token)

    def rollback(self, length: int) -> None:
        """Forget all tokens from ``length`` on."""
        while len(self._tokens) > length:
            self._tokens.pop()
            for size, earlier in enumerate(self._undo.pop(), 1):
                suffix, followers = tuple(self._tokens[-size:]), self._follower[size - 1]
                if earlier is None:
                    del followers[suffix]
                else:
                    followers[suffix] = earlier

    def look_up(self) -> tuple[int, int]:
        """The token that followed the longest known suffix, and its length; (0, 0) if none."""
        for size in range(min(MAX_MATCH, len(self._tokens)), 0, -1):
            token = self._follower[size - 1].get(tuple(self._tokens[-size:]))
            if token is not None:
                return token, size
        return 0, 0


def look_up_all(tokens: Sequence[int]) -> tuple[list[int], list[int]]:
    """:meth:`SuffixLookup.look_up` after each of ``tokens``: tokens found, lengths matched."""
    lookup = SuffixLookup()
    found: list[int] = []
    lengths: list[int] = []
    for token in tokens:
        lookup.append(token)
        copied, length = lookup.look_up()
        found.append(copied)
        lengths.append(length)
    return found, lengths
