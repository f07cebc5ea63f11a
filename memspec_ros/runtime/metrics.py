# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Counting what decoding does; observes and changes nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from memspec_ros.boundaries import Clock, IterationOutcome
from memspec_ros.records import Throughput, TimeShares
from memspec_ros.runtime.cache_counters import CacheCounters

RATE_WINDOW_S = 1.0


@dataclass(kw_only=True)
class TimeParts:
    """Seconds of decoding by what they went to (section 4.3); together the decode time.

    Desired: iterations with the draft that the policy ranked first; fallback: with another, as
    the first was not resident; prediction: planning, catch-ups to judge by, cache bookkeeping;
    load wait: decoding stood still for a load.
    """

    desired_s: float = 0.0
    fallback_s: float = 0.0
    prediction_s: float = 0.0
    load_wait_s: float = 0.0

    @property
    def decode_s(self) -> float:
        """The sum of the parts."""
        return self.desired_s + self.fallback_s + self.prediction_s + self.load_wait_s

    def add(self, other: TimeParts) -> None:
        """Add the parts of another."""
        self.desired_s += other.desired_s
        self.fallback_s += other.fallback_s
        self.prediction_s += other.prediction_s
        self.load_wait_s += other.load_wait_s

    def shares(self) -> TimeShares:
        """Return the parts as shares of their sum; all 0 before anything was decoded."""
        total_s = self.decode_s
        if total_s <= 0:
            return TimeShares()
        return TimeShares(desired=self.desired_s / total_s, fallback=self.fallback_s / total_s,
                          prediction=self.prediction_s / total_s,
                          load_wait=self.load_wait_s / total_s)


@dataclass(kw_only=True)
class GoalMetrics:
    """Counts of one goal, or of all goals together.

    What comes before the first iteration (the first prediction and the wait for d_0) is start-up
    and not part of the decode time, as the paper's steady-state throughput leaves it out.
    """

    time: TimeParts = field(default_factory=TimeParts)
    startup_prediction_s: float = 0.0
    startup_load_wait_s: float = 0.0
    num_iterations: int = 0
    num_committed: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    num_points: int = 0
    num_hits: int = 0
    num_switches: int = 0
    drafts_used: dict[str, int] = field(default_factory=dict)

    @property
    def tokens_per_second(self) -> float:
        """Committed tokens per second of decode time."""
        decode_s = self.time.decode_s
        return self.num_committed / decode_s if decode_s > 0 else 0.0

    @property
    def committed_per_iteration(self) -> float:
        """Mean committed tokens per iteration."""
        return self.num_committed / self.num_iterations if self.num_iterations else 0.0

    @property
    def acceptance(self) -> float:
        """Share of proposed tokens that were committed."""
        return self.num_accepted / self.num_drafted if self.num_drafted else 0.0

    @property
    def hit_rate(self) -> float:
        """Share of scheduling points at which the desired draft was resident."""
        return self.num_hits / self.num_points if self.num_points else 0.0


def sum_of(parts: Iterable[GoalMetrics]) -> GoalMetrics:
    """Return the counts of several goals together."""
    total = GoalMetrics()
    for goal in parts:
        total.time.add(goal.time)
        for name in _COUNTS:
            setattr(total, name, getattr(total, name) + getattr(goal, name))
        for draft, count in goal.drafts_used.items():
            total.drafts_used[draft] = total.drafts_used.get(draft, 0) + count
    return total


_COUNTS = tuple(item.name for item in fields(GoalMetrics)
                if item.name not in ('time', 'drafts_used'))


class Metrics:
    """Metrics of the goal at hand, of all goals, and rates over the last second of decoding."""

    def __init__(self, *, clock: Clock, counters: CacheCounters) -> None:
        self._clock = clock
        self._counters = counters
        self._recent: deque[tuple[float, float, IterationOutcome]] = deque()
        self._before = GoalMetrics()
        self.goal = GoalMetrics()

    @property
    def total(self) -> GoalMetrics:
        """All goals together."""
        return sum_of((self._before, self.goal))

    def start_goal(self) -> None:
        """Begin to count a goal."""
        self._before = self.total
        self.goal = GoalMetrics()

    def add_iteration(self, outcome: IterationOutcome, seconds: float, *, desired: bool) -> None:
        """Count an iteration that took ``seconds``, controller included."""
        goal = self.goal
        if desired:
            goal.time.desired_s += seconds
        else:
            goal.time.fallback_s += seconds
        goal.num_iterations += 1
        goal.num_committed += outcome.num_committed
        goal.num_drafted += outcome.num_drafted
        goal.num_accepted += outcome.num_accepted
        if outcome.num_drafted:
            goal.drafts_used[outcome.draft] = goal.drafts_used.get(outcome.draft, 0) + 1
        self._remember(outcome, seconds)

    def add_point(self, *, prediction_s: float, load_wait_s: float, hit: bool, switched: bool,
                  is_first: bool) -> None:
        """Count a scheduling point; the first one of a goal is start-up."""
        goal = self.goal
        if is_first:
            goal.startup_prediction_s += prediction_s
            goal.startup_load_wait_s += load_wait_s
        else:
            goal.time.prediction_s += prediction_s
            goal.time.load_wait_s += load_wait_s
        goal.num_points += 1
        goal.num_hits += hit
        goal.num_switches += switched

    def throughput(self, *, rss_bytes: int = 0, available_bytes: int = 0) -> Throughput:
        """Return the running figures; rates over the last second of decoding."""
        outcomes = [outcome for _, _, outcome in self._recent]
        seconds = sum(seconds for _, seconds, _ in self._recent)
        committed = sum(outcome.num_committed for outcome in outcomes)
        drafted = sum(outcome.num_drafted for outcome in outcomes)
        accepted = sum(outcome.num_accepted for outcome in outcomes)
        return Throughput(
            tokens_per_second=committed / seconds if seconds > 0 else 0.0,
            committed_per_iteration=committed / len(outcomes) if outcomes else 0.0,
            acceptance=accepted / drafted if drafted else 0.0,
            draft_length=drafted / len(outcomes) if outcomes else 0.0,
            shares=self.goal.time.shares(), num_loads=self._counters.num_loads,
            num_evictions=self._counters.num_evictions,
            num_wasted_prefetches=self._counters.num_wasted_prefetches,
            hit_rate=self.total.hit_rate, rss_bytes=rss_bytes, available_bytes=available_bytes)

    def _remember(self, outcome: IterationOutcome, seconds: float) -> None:
        now_s = self._clock()
        self._recent.append((now_s, seconds, outcome))
        while self._recent[0][0] < now_s - RATE_WINDOW_S:
            self._recent.popleft()
