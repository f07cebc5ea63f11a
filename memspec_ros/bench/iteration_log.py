# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics that also keep what each part of each iteration took."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memspec_ros.bench.timings import Timings
from memspec_ros.boundaries import Clock, IterationOutcome
from memspec_ros.runtime.cache_counters import CacheCounters
from memspec_ros.runtime.metrics import Metrics

SLOW = 1.25


@dataclass(frozen=True, kw_only=True)
class Stalls:
    """How iterations during loads compare with the median of those without.

    :param median_s: of iterations during which nothing loaded.
    :param worst_s: longest iteration during a load; ``num_slow`` of ``num_loading`` took more
        than 1.25 medians.
    """

    median_s: float = 0.0
    worst_s: float = 0.0
    num_loading: int = 0
    num_slow: int = 0


class IterationLog(Metrics):
    """Takes the place of the controller's metrics while a benchmark runs.

    :param is_loading: whether the loader reads at this moment.
    """

    def __init__(self, *, clock: Clock, counters: CacheCounters,
                 is_loading: Callable[[], bool]) -> None:
        super().__init__(clock=clock, counters=counters)
        self._is_loading = is_loading
        self._forget()

    def start_goal(self) -> None:
        """Begin to count a goal."""
        super().start_goal()
        self._forget()

    def add_point(self, *, prediction_s: float, load_wait_s: float, hit: bool, switched: bool,
                  is_first: bool) -> None:
        """Count a scheduling point."""
        super().add_point(prediction_s=prediction_s, load_wait_s=load_wait_s, hit=hit,
                          switched=switched, is_first=is_first)
        self._switched = switched or is_first
        self._was_loading = self._is_loading()

    def add_iteration(self, outcome: IterationOutcome, seconds: float, *, desired: bool) -> None:
        """Count an iteration."""
        super().add_iteration(outcome, seconds, desired=desired)
        is_loading = self._is_loading()
        loading = is_loading or self._was_loading
        self.timings.add(outcome, seconds, loading=loading, switched=self._switched)
        if not self._switched:
            (self._loading_s if loading else self._quiet_s).append(seconds)
        self._switched, self._was_loading = False, is_loading

    def add_load(self, draft: str, seconds: float) -> None:
        """Count a load, unless decoding waited for it: with idle processors it takes less."""
        if self.goal.num_iterations:
            self.timings.add_load(draft, seconds)

    def stalls(self) -> Stalls:
        """Return how loads slowed the goal's iterations; switches are not among them."""
        return stalls_of(self._quiet_s, self._loading_s)

    def _forget(self) -> None:
        self.timings = Timings()
        self._quiet_s: list[float] = []
        self._loading_s: list[float] = []
        self._switched = True
        self._was_loading = False


def stalls_of(quiet_s: Sequence[float], loading_s: Sequence[float]) -> Stalls:
    """Compare iterations during loads with those without."""
    if not quiet_s:
        return Stalls()
    median_s = statistics.median(quiet_s)
    return Stalls(median_s=median_s, worst_s=max(loading_s, default=0.0),
                  num_loading=len(loading_s),
                  num_slow=sum(seconds > SLOW * median_s for seconds in loading_s))
