# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Progress gathered into as many feedback messages as a client should get."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from memspec_ros.records import Progress


class FeedbackBatch:
    """Joins the progress of iterations and passes it on at a rate; of one goal.

    A change of state is passed on at once, so the first text is not held back. Belongs to the
    decode thread.

    :param send: gets the joined progress; its deltas together are all text that was added.
    :param rate_hz: most calls of ``send`` per second, changes of state apart.
    """

    def __init__(self, *, send: Callable[[Progress], None], rate_hz: float,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._send = send
        self._clock = clock
        self._period_s = 1.0 / rate_hz
        self._next_s = 0.0
        self._pending: Progress | None = None
        self._last: Progress | None = None
        self.text = ''

    def add(self, progress: Progress) -> None:
        """Take the progress of one iteration."""
        self.text += progress.delta_text
        before = self._pending.delta_text if self._pending else ''
        self._pending = dataclasses.replace(progress, delta_text=before + progress.delta_text)
        state_changed = self._last is None or self._last.state != progress.state
        if state_changed or self._clock() >= self._next_s:
            self.flush()

    def flush(self) -> None:
        """Pass on what is held back."""
        if self._pending is None:
            return
        self._send(self._pending)
        self._last, self._pending = self._pending, None
        self._next_s = self._clock() + self._period_s
