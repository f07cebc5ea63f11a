# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Watches the machine's memory for the node, and has K follow it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from memspec_ros.config import Settings
from memspec_ros.node.backend import Runtime
from memspec_ros.runtime.memory_watch import MemoryState, MemoryWatch, read_memory


class MachineWatch:
    """Belongs to the executor thread.

    :param run_idle: has the decode thread run something as soon as no goal runs.
    :param clock: monotonic seconds.
    """

    def __init__(self, logger: Any, *, run_idle: Callable[[Callable[[], None]], object],
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._run_idle = run_idle
        self._clock = clock
        self._watch = MemoryWatch()
        self._is_readable = True
        self.memory: MemoryState | None = None

    def forget(self) -> None:
        """Begin anew, with another runtime or none."""
        self._watch = MemoryWatch()

    def update(self, runtime: Runtime | None, settings: Settings) -> None:
        """Read the memory's state, and bound K where it is short and the drafts are in it."""
        self.memory = self._read(settings.machine.proc_folder)
        if runtime is None or self.memory is None:
            return
        if runtime.info().device != 'cpu':
            # A smaller K would cost speed and give nothing back: slots on a GPU stay taken.
            return
        residency = runtime.residency()
        full_capacity = min(settings.runtime.cache_capacity, len(residency.drafts))
        if self._watch.update(self.memory, settings.machine, now_s=self._clock(),
                              capacity=residency.cache_capacity, full_capacity=full_capacity):
            self._bound(runtime, full_capacity)

    def _bound(self, runtime: Runtime, full_capacity: int) -> None:
        limit, reason = self._watch.limit, self._watch.reason
        if limit is None:
            self._logger.info(f'K is {full_capacity} again: memory suffices')
        else:
            self._logger.warning(f'K is at most {limit}: {reason}')
        # The goal that runs takes it between two passes, the decode thread when none runs.
        runtime.limit_capacity(limit, reason)
        self._run_idle(runtime.relieve)

    def _read(self, proc_folder: str) -> MemoryState | None:
        try:
            state = read_memory(proc_folder)
        except OSError as error:
            if self._is_readable:
                self._logger.warning(f'memory is not watched: {error}')
            self._is_readable = False
            return None
        self._is_readable = True
        return state
