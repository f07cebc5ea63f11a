# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The best schedule of one goal, under the rules of controller and draft cache.

A search (A*) over what can be reached from scheduling point to scheduling point; its horizon is
the end of the answer.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from memspec_ros.replay.goal_table import GoalTable
from memspec_ros.replay.profile import DeviceProfile

Loads = tuple[tuple[str, float], ...]
"""Loads in flight: draft, and seconds until it is resident, in the loader's order."""


@dataclass(frozen=True)
class State:
    """What the future depends on at a scheduling point."""

    position: int
    resident: frozenset[str]
    loads: Loads
    active: str


@dataclass(frozen=True)
class Step:
    """What may be done there: which draft runs, which leave, which loads start, in order."""

    active: str
    evicted: frozenset[str] = frozenset()
    started: tuple[str, ...] = ()


class Schedule:
    """The best schedule of one goal from any state.

    A cancelled load is never part of one: what it would have brought was not needed. A catch-up
    is charged its fixed part (what it costs per token depends on more than the state).

    :param drafts: the pool; ``always_resident`` may run too.
    """

    def __init__(self, table: GoalTable, profile: DeviceProfile, *, drafts: Sequence[str],
                 always_resident: Sequence[str], cache_capacity: int, scheduling_interval: int,
                 draft_length: int) -> None:
        self._table = table
        self._profile = profile
        self._drafts = tuple(drafts)
        self._runnable_always = tuple(name for name in always_resident
                                      if name in table.runs or not name)
        self._capacity = cache_capacity
        self._interval = scheduling_interval
        self._draft_length = draft_length
        self._planned: dict[State, Step] = {}
        self._bounds_s: dict[int, float] = {}
        self._intervals: dict[tuple[int, str], tuple[int, float, bool]] = {}

    def best_step(self, state: State) -> Step:
        """Return the first step of a schedule with the least remaining decode time."""
        if state not in self._planned:
            self._search([state])
        return self._planned[state]

    def remaining_s(self, states: Sequence[State]) -> float:
        """Return the least remaining decode time from the best of some states."""
        return self._search(states)[1]

    def best_start(self) -> tuple[str, ...]:
        """Return the loads of the first scheduling point, d_0 first; () where there are none."""
        starts = {self.start_state(start): start
                  for size in range(1, min(self._capacity, len(self._drafts)) + 1)
                  for start in permutations(self._drafts, size)}
        return starts[self._search(list(starts))[0]] if starts else ()

    def start_state(self, start: Sequence[str]) -> State:
        """Return the state in which decoding begins: d_0 resident, the others on their way."""
        return State(0, frozenset(start[:1]), self._queued((), start[1:]), '')

    def _search(self, starts: Sequence[State]) -> tuple[State, float]:
        """Find the schedule of the least time (A*); note its steps, return its start and time.

        What remains is bounded from below by what it would take with all drafts resident.
        """
        order = itertools.count()
        least_s = dict.fromkeys(starts, 0.0)
        links: dict[State, tuple[State, Step]] = {}
        queue: list[tuple[float, int, float, State | None, tuple[State, Step] | None]] = [
            (self._bound_s(start.position), next(order), 0.0, start, None) for start in starts]
        heapq.heapify(queue)
        while True:
            _, _, spent_s, state, link = heapq.heappop(queue)
            if state is None:
                assert link is not None
                return self._note(link, links), spent_s
            if spent_s > least_s[state]:
                continue
            for step in self._steps(state):
                after_s, after = self._after(state, step)
                total_s = spent_s + after_s
                if after is None:
                    heapq.heappush(queue, (total_s, next(order), total_s, None, (state, step)))
                elif total_s < least_s.get(after, math.inf):
                    least_s[after] = total_s
                    links[after] = state, step
                    heapq.heappush(queue, (total_s + self._bound_s(after.position),
                                           next(order), total_s, after, None))

    def _note(self, link: tuple[State, Step], links: dict[State, tuple[State, Step]]) -> State:
        """Keep the steps of a schedule, from its last one back; return where it starts."""
        while True:
            state, step = link
            self._planned[state] = step
            if state not in links:
                return state
            link = links[state]

    def _bound_s(self, position: int) -> float:
        """Return the least time from a position if every draft were resident."""
        if position not in self._bounds_s:
            bounds = []
            for draft in (*self._drafts, *self._runnable_always):
                after, seconds, finished = self._quiet_interval(position, draft)
                bounds.append(seconds + (0.0 if finished else self._bound_s(after)))
            self._bounds_s[position] = min(bounds)
        return self._bounds_s[position]

    def _steps(self, state: State) -> Iterator[Step]:
        """Yield every step that the draft cache's rules allow."""
        absent = [name for name in self._drafts if name not in state.resident
                  and all(name != load for load, _ in state.loads)]
        num_free = self._capacity - len(state.resident) - len(state.loads)
        for active in (*sorted(state.resident), *self._runnable_always):
            evictable = sorted(state.resident - {active})
            yield Step(active)
            if state.position == 0:
                continue  # the first scheduling point's loads are the start's
            for size in range(1, min(len(absent), num_free + len(evictable)) + 1):
                for started in permutations(absent, size):
                    for evicted in combinations(evictable, max(0, size - num_free)):
                        yield Step(active, frozenset(evicted), started)

    def _after(self, state: State, step: Step) -> tuple[float, State | None]:
        """Return the seconds of an interval and the state after it; None when the answer ends."""
        loads = self._queued(state.loads, step.started)
        position, seconds, finished = self._run_interval(state, step.active, loads)
        if finished:
            return seconds, None
        arrived = frozenset(name for name, left_s in loads if left_s <= seconds)
        rest = tuple((name, round(left_s - seconds, 9)) for name, left_s in loads
                     if left_s > seconds)
        resident = (state.resident - step.evicted) | arrived
        return seconds, State(position, resident, rest, step.active)

    def _queued(self, loads: Loads, started: Sequence[str]) -> Loads:
        """Return the loads in flight after more have been queued behind them."""
        queue = list(loads)
        for name in started:
            queue.append((name, (queue[-1][1] if queue else 0.0) + self._profile.load_of(name)))
        return tuple(queue)

    def _run_interval(self, state: State, draft: str,
                      loads: Loads) -> tuple[int, float, bool]:
        """Return position and seconds after N iterations, and whether the answer ended."""
        switch_s = self._profile.missed_s(draft, 0) if draft and draft != state.active else 0.0
        slowdown = self._profile.load_slowdown
        if loads and slowdown != 1.0:
            return self._simulate(state.position, draft, switch_s, loads[-1][1], slowdown)
        position, seconds, finished = self._quiet_interval(state.position, draft)
        return position, seconds + switch_s, finished

    def _quiet_interval(self, position: int, draft: str) -> tuple[int, float, bool]:
        key = (position, draft)
        if key not in self._intervals:
            self._intervals[key] = self._simulate(position, draft, 0.0, 0.0, 1.0)
        return self._intervals[key]

    def _simulate(self, position: int, draft: str, seconds: float, loading_s: float,
                  slowdown: float) -> tuple[int, float, bool]:
        table, profile = self._table, self._profile
        for _ in range(self._interval):
            num_left = table.num_tokens - position
            drafted = table.num_drafted(draft, self._draft_length, position)
            accepted = min(table.runs[draft][position], drafted) if drafted and num_left else 0
            position += min(accepted + 1, num_left)
            seconds += profile.iteration_s(draft, drafted) * (
                slowdown if seconds < loading_s else 1.0)
            if accepted + 1 > num_left or position == table.max_tokens:
                return position, seconds, True
        return position, seconds, False
