# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Does a swap stall decoding? Iterations while a draft loads, against those without loads."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from memspec_ros.bench.real_time import RealTimeBench
from memspec_ros.bench.workloads import BenchPrompt
from memspec_ros.boundaries import IterationOutcome
from memspec_ros.errors import ConfigError
from memspec_ros.records import GoalState, Progress
from memspec_ros.runtime.assembly import Assembly
from memspec_ros.runtime.plan import Plan, PlanContext


@dataclass(frozen=True, kw_only=True)
class SwapStall:
    """Seconds of iterations with and without a load in progress.

    The limit of a swap that does not stall: the longest during loads at most 1.25 of the median
    without.
    """

    num_quiet: int
    num_loading: int
    num_loads: int
    quiet_median_s: float
    quiet_longest_s: float
    loading_median_s: float
    loading_longest_s: float

    @property
    def longest_over_median(self) -> float:
        """The longest iteration during a load over the median without."""
        return self.loading_longest_s / self.quiet_median_s if self.quiet_median_s else 0.0

    @property
    def slowdown(self) -> float:
        """Median during loads over the median without."""
        return self.loading_median_s / self.quiet_median_s if self.quiet_median_s else 0.0


class SwapEveryInterval:
    """A policy that runs one draft and loads another at each scheduling point."""

    def __init__(self, active: str, others: Sequence[str]) -> None:
        self._active = active
        self._others = itertools.cycle(others)

    def plan(self, context: PlanContext) -> Plan:
        """Keep the active draft, want another one beside it."""
        working_set = (self._active, next(self._others))
        return Plan(ranking=(self._active, *context.always_resident), working_set=working_set,
                    scores={name: float(name == self._active) for name in working_set},
                    awaited='' if context.point else self._active)

    def observe(self, outcome: IterationOutcome) -> None:
        """Learn nothing."""

    def observe_catch_up(self, draft: str, flags: Sequence[bool]) -> None:
        """Learn nothing."""

    def reset(self) -> None:
        """Forget nothing."""


class IterationTimer:
    """Told of a goal's progress, notes how long each iteration took.

    An iteration counts as one during a load when the loader read before or after it.
    """

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._before_s: float | None = None
        self._was_reading = False
        self.quiet: list[float] = []
        self.loading: list[float] = []

    def __call__(self, progress: Progress) -> None:
        """Note the end of an iteration."""
        if progress.state is not GoalState.DECODE:
            return
        now_s, reading = time.perf_counter(), self._assembly.loader.is_reading
        if self._before_s is not None:
            kind = self.loading if reading or self._was_reading else self.quiet
            kind.append(now_s - self._before_s)
        self._before_s, self._was_reading = now_s, reading

    def pause(self) -> None:
        """Forget the last iteration: what follows is not the next one of the same goal."""
        self._before_s = None

    def result(self, num_loads: int) -> SwapStall:
        """Return the figures."""
        return SwapStall(
            num_quiet=len(self.quiet), num_loading=len(self.loading), num_loads=num_loads,
            quiet_median_s=_median(self.quiet), quiet_longest_s=max(self.quiet, default=0.0),
            loading_median_s=_median(self.loading),
            loading_longest_s=max(self.loading, default=0.0))


def _median(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) if seconds else 0.0


def measure_swap_stall(bench: RealTimeBench, prompts: Sequence[BenchPrompt]) -> SwapStall:
    """Decode with one draft while the others come and go.

    :raises ConfigError: fewer than three drafts, so there would be nothing to swap.
    """
    if len(bench.pool) < 3:
        raise ConfigError(f'a swap needs a pool of 3 drafts at the least; it has '
                          f'{len(bench.pool)}')
    timer = IterationTimer(bench.assembly)
    counters = bench.assembly.draft_cache.counters
    before = counters.num_loads
    for prompt in prompts:
        timer.pause()
        bench.run_policy(SwapEveryInterval(bench.pool[0], bench.pool[1:]), prompt, timer)
    return timer.result(counters.num_loads - before)
