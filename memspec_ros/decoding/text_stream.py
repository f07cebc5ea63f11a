# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Text that grows token by token: whole characters only, and nothing of a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence


class TextStream:
    """Turns tokens into text as they are committed.

    A token may end inside a character, so bytes are decoded incrementally; a stop string may
    begin in one token and end three later, so text that could become one is held back.

    :param token_bytes: the bytes of one token; empty for control tokens.
    :param stop: stop strings, none of them empty.
    """

    def __init__(self, token_bytes: Callable[[int], bytes], stop: Sequence[str] = ()) -> None:
        self._token_bytes = token_bytes
        self._stop = tuple(stop)
        self._decoder = codecs.getincrementaldecoder('utf-8')('replace')
        self._starts: list[int] = []
        self._taken = 0
        self._stopped = False
        self.text = ''

    @property
    def num_tokens(self) -> int:
        """Tokens pushed, less those that lie wholly at or past a stop string."""
        return len(self._starts)

    def push(self, token_id: int) -> bool:
        """Append a token; return whether a stop string is complete (the text ends before it)."""
        self._starts.append(len(self.text))
        added = self._decoder.decode(self._token_bytes(token_id))
        searched_from = len(self.text) - max(map(len, self._stop), default=1) + 1
        self.text += added
        found = self._find_stop(max(0, searched_from))
        if found >= 0:
            self._cut(found)
        return self._stopped

    def take(self) -> str:
        """Return the text that is new since the last call and certain to stay."""
        end = len(self.text) - (0 if self._stopped else self._held_back())
        fresh, self._taken = self.text[self._taken:end], max(self._taken, end)
        return fresh

    def finish(self) -> str:
        """Return the rest: held-back text, and a replacement for a character left incomplete."""
        if not self._stopped:
            self.text += self._decoder.decode(b'', final=True)
            self._stopped = True
        return self.take()

    def _find_stop(self, start: int) -> int:
        found = [index for text in self._stop if (index := self.text.find(text, start)) >= 0]
        return min(found, default=-1)

    def _cut(self, end: int) -> None:
        self.text = self.text[:end]
        self._stopped = True
        while self._starts and self._starts[-1] >= end:
            self._starts.pop()

    def _held_back(self) -> int:
        """Length of the longest end of the text that begins a stop string."""
        for length in range(max(map(len, self._stop), default=0) - 1, 0, -1):
            tail = self.text[-length:]
            if len(tail) == length and any(text.startswith(tail) for text in self._stop):
                return length
        return 0
