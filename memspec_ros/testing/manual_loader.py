# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A loader whose loads end when the test says so."""

from __future__ import annotations

from memspec_ros.boundaries import LoadEvent


class ManualLoader:
    """A :class:`~memspec_ros.boundaries.DraftLoader` driven by hand.

    :param instant: loads end well as soon as they are asked after.
    :param cancels_at_once: a cancelled load has its event right away, else when ``finish`` or
        ``fail`` is called for it.

    ``started`` lists all loads in order, ``in_flight`` those that have not ended.
    """

    def __init__(self, *, instant: bool = False, cancels_at_once: bool = True) -> None:
        self._instant = instant
        self._cancels_at_once = cancels_at_once
        self._cancelled: set[str] = set()
        self._events: list[LoadEvent] = []
        self.started: list[str] = []
        self.in_flight: dict[str, int] = {}

    def start(self, draft: str, slot: int) -> None:
        """Begin a load."""
        if draft in self.in_flight or slot in self.in_flight.values():
            raise AssertionError(f"'{draft}' into slot {slot} while {self.in_flight} load")
        self.started.append(draft)
        self.in_flight[draft] = slot

    def cancel(self, draft: str) -> None:
        """Abandon a load."""
        self._cancelled.add(draft)
        if self._cancels_at_once:
            self.finish(draft)

    def finish(self, draft: str, seconds: float = 0.0) -> None:
        """Let a load end well (or as cancelled, where it was)."""
        self._end(LoadEvent(draft=draft, slot=self.in_flight[draft], seconds=seconds,
                            cancelled=draft in self._cancelled))

    def fail(self, draft: str, error: str, *, out_of_memory: bool = False) -> None:
        """Let a load end with an error (or as cancelled, where it was)."""
        if draft in self._cancelled:
            self.finish(draft)
        else:
            self._end(LoadEvent(draft=draft, slot=self.in_flight[draft], seconds=0.0,
                                error=error, out_of_memory=out_of_memory))

    def poll(self) -> list[LoadEvent]:
        """Return the loads that ended since the last call."""
        if self._instant:
            self._finish_all()
        events, self._events = self._events, []
        return events

    def wait(self) -> LoadEvent:
        """Return the next load that ended; finishes the oldest one where none has."""
        if not self._events:
            self.finish(next(iter(self.in_flight)))
        return self._events.pop(0)

    def _finish_all(self) -> None:
        for draft in list(self.in_flight):
            self.finish(draft)

    def _end(self, event: LoadEvent) -> None:
        del self.in_flight[event.draft]
        self._cancelled.discard(event.draft)
        self._events.append(event)
