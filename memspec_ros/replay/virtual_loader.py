# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Loads that take virtual time, one after the other as on the loader thread."""

from __future__ import annotations

from memspec_ros.boundaries import LoadEvent
from memspec_ros.errors import LoadError
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.replay.virtual_clock import VirtualClock


class VirtualLoader:
    """A :class:`~memspec_ros.boundaries.DraftLoader` on a virtual clock."""

    def __init__(self, profile: DeviceProfile, clock: VirtualClock) -> None:
        self._profile = profile
        self._clock = clock
        self._queue: list[tuple[str, int, float]] = []
        self._cancelled: list[LoadEvent] = []
        self._began_s = 0.0

    @property
    def is_loading(self) -> bool:
        """Whether a load is under way now."""
        return bool(self._queue) and self._end_s > self._clock.now_s

    @property
    def _end_s(self) -> float:
        """When the load at the head of the queue ends."""
        return self._began_s + self._queue[0][2]

    def start(self, draft: str, slot: int) -> None:
        """Queue a load."""
        if not self._queue:
            self._began_s = self._clock.now_s
        self._queue.append((draft, slot, self._profile.load_of(draft)))

    def cancel(self, draft: str) -> None:
        """Abandon a load at once, unless it has ended already."""
        for index, (name, slot, _) in enumerate(self._queue):
            if name == draft and (index or self._end_s > self._clock.now_s):
                if index == 0:
                    self._began_s = self._clock.now_s
                del self._queue[index]
                self._cancelled.append(LoadEvent(draft=draft, slot=slot, seconds=0.0,
                                                 cancelled=True))
                return

    def poll(self) -> list[LoadEvent]:
        """Return the loads that have ended by now."""
        events, self._cancelled = self._cancelled, []
        while self._queue and self._end_s <= self._clock.now_s:
            events.append(self._pop())
        return events

    def wait(self) -> LoadEvent:
        """Let time pass until the next load ends."""
        if self._cancelled:
            return self._cancelled.pop(0)
        if not self._queue:
            raise LoadError('no load is in flight to wait for')
        left_s = max(0.0, self._end_s - self._clock.now_s)
        self._began_s -= (1.0 - self._profile.awaited_load_share) * left_s
        self._clock.advance_to(self._end_s)
        return self._pop()

    def _pop(self) -> LoadEvent:
        self._began_s = self._end_s
        draft, slot, seconds = self._queue.pop(0)
        return LoadEvent(draft=draft, slot=slot, seconds=seconds)
