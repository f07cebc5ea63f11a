# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The loader thread: reads drafts into their slots while decoding goes on."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from memspec_ros.boundaries import LoadEvent
from memspec_ros.errors import LoadError, ModelError

# A disk that gives nothing for so long has a problem: decoding goes on without the draft.
STALL_S = 5.0
STALL_POLL_S = 0.25
STALLED = 'stalled'
# More than the threads that decode have: a third of their share of a processor that both want.
NICENESS = 5


class DraftSource(Protocol):
    """Reads one draft into a slot, in chunks; runs on the loader thread."""

    def __call__(self, slot: int, *, should_cancel: Callable[[], bool],
                 throttle: Callable[[int], None]) -> None:
        """Fill a slot.

        Before each chunk ``should_cancel`` is asked; when it says yes the source returns at
        once. After each chunk ``throttle`` is told its bytes, and waits to hold the bandwidth
        cap. A source that reads files tells the kernel to drop their pages (POSIX_FADV_DONTNEED)
        in its end, however it ends.

        :raises LoadError, ModelError, OSError, MemoryError: the draft cannot be had.
        """


class BandwidthCap:
    """Waits so that bytes flow no faster than a cap, which may change at any time.

    :param bytes_per_s: 0 is no cap.
    """

    def __init__(self, bytes_per_s: float = 0.0) -> None:
        self.bytes_per_s = bytes_per_s
        self._due_s = 0.0

    def delay_s(self, num_bytes: int, now_s: float) -> float:
        """Account for bytes just moved and return how long to wait before the next ones."""
        if self.bytes_per_s <= 0:
            return 0.0
        self._due_s = max(self._due_s, now_s) + num_bytes / self.bytes_per_s
        return self._due_s - now_s


@dataclass(kw_only=True)
class _Job:
    """One load on its way through the thread."""

    draft: str
    slot: int
    cancelled: threading.Event = field(default_factory=threading.Event)


class ThreadLoader:
    """Loads one draft at a time on a thread of its own.

    :param sources: how each draft is read.
    :param load_bandwidth_mb_s: cap on reading, MB/s; 0 is none.
    """

    def __init__(self, sources: Mapping[str, DraftSource], *,
                 load_bandwidth_mb_s: float = 0.0) -> None:
        self._sources = sources
        self._cap = BandwidthCap(1e6 * load_bandwidth_mb_s)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[LoadEvent] = queue.SimpleQueue()
        self._in_flight: dict[str, _Job] = {}
        self._is_reading = False
        self._moved_s = time.perf_counter()
        self._thread = threading.Thread(target=self._run, name='draft-loader', daemon=True)
        self._thread.start()

    @property
    def is_reading(self) -> bool:
        """Whether the thread reads a draft at this moment."""
        return self._is_reading

    def set_bandwidth(self, load_bandwidth_mb_s: float) -> None:
        """Change the cap, for loads in flight too."""
        self._cap.bytes_per_s = 1e6 * load_bandwidth_mb_s

    def start(self, draft: str, slot: int) -> None:
        """Queue a load; returns at once.

        :raises LoadError: the thread has been shut down.
        """
        if not self._thread.is_alive():
            raise LoadError(f"the loader is shut down; draft '{draft}' cannot be loaded")
        self._in_flight[draft] = job = _Job(draft=draft, slot=slot)
        self._jobs.put(job)

    def cancel(self, draft: str) -> None:
        """Abandon a load; its event follows within one chunk."""
        if draft in self._in_flight:
            self._in_flight[draft].cancelled.set()

    def poll(self) -> list[LoadEvent]:
        """Return the loads that ended since the last call; never waits."""
        events = []
        while True:
            try:
                events.append(self._settle(self._events.get_nowait()))
            except queue.Empty:
                return events

    def wait(self) -> LoadEvent:
        """Block until one load ends.

        :raises LoadError: nothing is in flight, so nothing would ever end; or nothing was read
            for ``STALL_S``, so nobody knows when it will.
        """
        if not self._in_flight:
            raise LoadError('no load is in flight to wait for')
        while True:
            try:
                return self._settle(self._events.get(timeout=STALL_POLL_S))
            except queue.Empty:
                still_s = time.perf_counter() - self._moved_s
                if still_s > STALL_S:
                    raise LoadError(f'{STALLED}: nothing was read for {still_s:.0f} s') from None

    def shutdown(self, timeout_s: float = 2.0) -> bool:
        """Cancel all loads and join the thread; tell whether it ended within the limit."""
        for job in list(self._in_flight.values()):
            job.cancelled.set()
        self._jobs.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _settle(self, event: LoadEvent) -> LoadEvent:
        self._in_flight.pop(event.draft, None)
        return event

    def _run(self) -> None:
        _yield_to_decoding()
        while (job := self._jobs.get()) is not None:
            self._moved_s = time.perf_counter()
            self._is_reading = True
            event = self._load(job)
            self._is_reading = False
            self._events.put(event)

    def _load(self, job: _Job) -> LoadEvent:
        started_s = time.perf_counter()
        error, out_of_memory = '', False
        try:
            if not job.cancelled.is_set():
                self._sources[job.draft](job.slot, should_cancel=job.cancelled.is_set,
                                         throttle=lambda num_bytes: self._throttle(job, num_bytes))
        except Exception as failure:  # whatever it is, decoding goes on and residency tells it
            error, out_of_memory = _describe(failure), is_out_of_memory(failure)
        cancelled = job.cancelled.is_set()
        return LoadEvent(draft=job.draft, slot=job.slot, error='' if cancelled else error,
                         seconds=time.perf_counter() - started_s, cancelled=cancelled,
                         out_of_memory=out_of_memory and not cancelled)

    def _throttle(self, job: _Job, num_bytes: int) -> None:
        self._moved_s = now_s = time.perf_counter()
        delay_s = self._cap.delay_s(num_bytes, now_s)
        if delay_s > 0:
            # The cap is no stall, however low it is.
            self._moved_s = now_s + delay_s
            job.cancelled.wait(delay_s)


def _yield_to_decoding() -> None:
    """Let passes have the processors first; Linux has priorities of threads."""
    with contextlib.suppress(AttributeError, OSError):
        thread = threading.get_native_id()
        niceness = os.getpriority(os.PRIO_PROCESS, thread) + NICENESS
        os.setpriority(os.PRIO_PROCESS, thread, min(niceness, 19))


def is_out_of_memory(failure: BaseException) -> bool:
    """Whether an error means that memory ran out.

    On Tegra PyTorch reports it as an NVML assert, a plain RuntimeError (pytorch#185240).
    """
    text = str(failure).lower()
    return isinstance(failure, MemoryError) or (isinstance(failure, RuntimeError) and (
        'out of memory' in text or 'nvml' in text or "can't allocate memory" in text))


def _describe(failure: Exception) -> str:
    if isinstance(failure, (LoadError, ModelError, OSError)) and str(failure):
        return str(failure)
    return f'{type(failure).__name__}: {failure}'
