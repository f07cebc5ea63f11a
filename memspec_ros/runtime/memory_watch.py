# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How many drafts the machine's memory lets be, before the kernel has to kill somebody."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from memspec_ros.config import MachineSettings
from memspec_ros.runtime.memory import available_bytes

MB = 1_000_000
# PSI is a mean over ten seconds: an eviction shows in it only after a while.
SETTLE_S = 3.0


@dataclass(frozen=True, kw_only=True)
class MemoryState:
    """What the kernel says: bytes that can be had, and the share of time that tasks stalled."""

    available_bytes: int
    stalled_percent: float = 0.0


def read_memory(proc_folder: str) -> MemoryState:
    """Read meminfo and, where the kernel has it, pressure/memory of a procfs.

    :raises OSError: there is no meminfo, or no MemAvailable in it.
    """
    folder = Path(proc_folder)
    return MemoryState(available_bytes=available_bytes(folder / 'meminfo'),
                       stalled_percent=_stalled_percent(folder / 'pressure' / 'memory'))


def _stalled_percent(path: Path) -> float:
    """Return ``avg10`` of the line ``some``: Documentation/accounting/psi.rst of the kernel."""
    try:
        fields = path.read_text(encoding='ascii').split()
        return float(next(field for field in fields if field.startswith('avg10=')).partition(
            '=')[2])
    except (OSError, StopIteration, ValueError):
        # Kernels without CONFIG_PSI, or with it switched off at boot.
        return 0.0


class MemoryWatch:
    """Decides by how much K has to shrink, and when it may grow; it reads and changes nothing.

    Short is below ``shrink_below_mb``, or stalled for ``pressure_percent`` of the time: K shrinks
    by one. Ample is above ``grow_above_mb`` and less than half of that share: after ``hold_s`` of
    it K grows by one. In between nothing changes, so it does not swing.
    """

    def __init__(self) -> None:
        self.limit: int | None = None
        self.reason = ''
        self._changed_s = 0.0
        self._ample_since_s: float | None = None

    def update(self, state: MemoryState, settings: MachineSettings, *, capacity: int,
               full_capacity: int, now_s: float) -> bool:
        """Take a reading; tell whether the limit has changed.

        :param capacity: K now, and ``full_capacity`` K without a limit.
        :param now_s: monotonic seconds.
        """
        before = self.limit
        if not settings.watch_memory:
            self._set(None, '', now_s)
            return self.limit != before
        shortage = self._shortage(state, settings, now_s)
        if shortage:
            self._ample_since_s = None
            lowest = min(capacity, self.limit or capacity)
            if lowest > 1:
                self._set(lowest - 1, f'memory pressure: {shortage}', now_s)
        elif self.limit is not None and self._is_ample(state, settings):
            self._grow(settings, full_capacity, now_s)
        else:
            self._ample_since_s = None
        return self.limit != before

    def _shortage(self, state: MemoryState, settings: MachineSettings, now_s: float) -> str:
        available_mb = state.available_bytes / MB
        if available_mb < settings.shrink_below_mb:
            return f'{available_mb:.0f} MB available, less than {settings.shrink_below_mb:.0f}'
        stalled = state.stalled_percent >= settings.pressure_percent < 100.0
        if stalled and now_s - self._changed_s >= SETTLE_S:
            return (f'tasks stalled on memory {state.stalled_percent:.0f} % of the time, at least '
                    f'{settings.pressure_percent:.0f}')
        return ''

    @staticmethod
    def _is_ample(state: MemoryState, settings: MachineSettings) -> bool:
        return state.available_bytes / MB > settings.grow_above_mb \
            and state.stalled_percent < settings.pressure_percent / 2

    def _grow(self, settings: MachineSettings, full_capacity: int, now_s: float) -> None:
        if self._ample_since_s is None:
            self._ample_since_s = now_s
        if now_s - max(self._ample_since_s, self._changed_s) < settings.hold_s:
            return
        assert self.limit is not None
        if self.limit + 1 < full_capacity:
            self._set(self.limit + 1, self.reason, now_s)
        else:
            self._set(None, '', now_s)

    def _set(self, limit: int | None, reason: str, now_s: float) -> None:
        if limit != self.limit:
            self._changed_s = now_s
        self.limit, self.reason = limit, reason
