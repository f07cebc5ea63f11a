# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The n-gram draft: prompt look-up, always resident, without weights.

Source: Saxena, "Prompt Lookup Decoding" (2023): when the last n tokens occurred before, in prompt
or output, propose what followed them then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import takewhile

from memspec_ros.boundaries import TokenContext

MAX_JUDGED_TOKENS = 64


class NgramIndex:
    """Where each n-gram of a growing sequence occurred last before its end.

    One entry per n-gram and position is added when a token is appended, and taken back when it
    is removed, so a look-up never scans the tokens.

    :param max_size: longest n-gram kept.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self.tokens: list[int] = []
        # For each size: n-gram to the position behind its latest occurrence that has a follower.
        self._latest: list[dict[tuple[int, ...], int]] = [{} for _ in range(max_size)]
        self._replaced: list[list[int | None]] = []

    def append(self, token: int) -> None:
        """Add a token: the n-grams before it have a follower now."""
        stop = len(self.tokens)
        replaced = []
        for gram, latest in self._ending_at(stop):
            replaced.append(latest.get(gram))
            latest[gram] = stop
        self._replaced.append(replaced)
        self.tokens.append(token)

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` tokens."""
        while len(self.tokens) > length:
            self.tokens.pop()
            pairs = zip(self._ending_at(len(self.tokens)), self._replaced.pop(), strict=True)
            for (gram, latest), earlier in pairs:
                if earlier is None:
                    del latest[gram]
                else:
                    latest[gram] = earlier

    def find(self) -> int | None:
        """Return the position behind the latest occurrence of the longest known last n-gram."""
        for gram, latest in reversed(list(self._ending_at(len(self.tokens)))):
            found = latest.get(gram)
            if found is not None:
                return found
        return None

    def _ending_at(self, stop: int) -> list[tuple[tuple[int, ...], dict[tuple[int, ...], int]]]:
        """Return the n-grams that end before ``stop``, shortest first, with their tables."""
        sizes = range(1, min(self._max_size, stop) + 1)
        return [(tuple(self.tokens[stop - size:stop]), self._latest[size - 1]) for size in sizes]


class NgramDraft:
    """A :class:`~memspec_ros.boundaries.Draft` that repeats what followed the same words before.

    :param max_size: longest n-gram looked up; shorter ones are tried after it.
    :param name: as policies and results name it.
    """

    def __init__(self, *, max_size: int = 4, name: str = 'ngram') -> None:
        self.name = name
        self._max_size = max_size
        self.reset()

    def reset(self) -> None:
        """Forget all tokens."""
        self._index = NgramIndex(self._max_size)
        self._flags: deque[bool] = deque(maxlen=MAX_JUDGED_TOKENS)

    def catch_up(self, context: TokenContext) -> Sequence[bool]:
        """Read what is missing; flags of committed positions, as the boundary says."""
        self._read(context)
        flags = list(self._flags)
        self._flags.clear()
        return flags

    def propose(self, context: TokenContext, num_tokens: int) -> Sequence[int]:
        """Propose what followed the latest occurrence of the longest last n-gram.

        The copy may run into what it has just proposed, so a short pattern goes on repeating.
        """
        self._read(context)
        start, known = self._index.find(), self._index.tokens
        proposed: list[int] = []
        while start is not None and len(proposed) < num_tokens:
            source = start + len(proposed)
            token = known[source] if source < len(known) else proposed[source - len(known)]
            if token in context.target.end_ids:
                break
            proposed.append(token)
        return proposed

    def _read(self, context: TokenContext) -> None:
        """Bring the index up to date, and judge what was committed meanwhile."""
        tokens, index = context.tokens, self._index
        if index.tokens != tokens[:len(index.tokens)]:
            self._flags.clear()
            index.rollback(_shared_length(index.tokens, tokens))
        for position in range(len(index.tokens), len(tokens)):
            if position >= context.prompt_length:
                found = index.find()
                self._flags.append(found is not None and index.tokens[found] == tokens[position])
            index.append(tokens[position])


def _shared_length(ours: Sequence[int], theirs: Sequence[int]) -> int:
    pairs = zip(ours, theirs, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
