# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A clock that moves only when it is told to."""

from __future__ import annotations


class VirtualClock:
    """Seconds that pass by ``advance``; in tests and in replay.

    :param start_s: what it shows first.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self.now_s = start_s

    def __call__(self) -> float:
        """Return the seconds shown."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds

    def advance_to(self, now_s: float) -> None:
        """Let time pass until a moment; one that lies behind changes nothing."""
        self.now_s = max(self.now_s, now_s)
