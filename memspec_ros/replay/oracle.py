# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Oracle-Dynamic and the choice of Oracle-Static: what could be had with knowledge of the future.

Both know the acceptance table of the goal. Oracle-Dynamic obeys every rule that the others obey:
the same scheduling points, K slots, one load at a time at the profile's speed, the active draft
protected. Its horizon is the end of the answer: by dynamic programming over what can be reached
it takes, at each scheduling point, the step of a schedule with the least remaining decode time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from memspec_ros.boundaries import Clock, IterationOutcome, TokenContext
from memspec_ros.errors import DataError
from memspec_ros.replay.goal_table import GoalTable, TableContext
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.runtime.plan import Plan, PlanContext

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
        self._best: dict[State, tuple[float, Step]] = {}
        self._intervals: dict[tuple[int, str], tuple[int, float, bool]] = {}

    def best_step(self, state: State) -> Step:
        """Return the step with the least remaining decode time."""
        return self._solve(state)[1]

    def remaining_s(self, state: State) -> float:
        """Return the least remaining decode time."""
        return self._solve(state)[0]

    def best_start(self) -> tuple[str, ...]:
        """Return the loads of the first scheduling point, d_0 first; () where none pays."""
        starts = [start for size in range(1, min(self._capacity, len(self._drafts)) + 1)
                  for start in permutations(self._drafts, size)]
        return min(starts, key=lambda start: self.remaining_s(self.start_state(start)),
                   default=())

    def start_state(self, start: Sequence[str]) -> State:
        """Return the state in which decoding begins: d_0 resident, the others on their way."""
        return State(0, frozenset(start[:1]), self._queued((), start[1:]), start[0])

    def _solve(self, state: State) -> tuple[float, Step]:
        known = self._best.get(state)
        if known is None:
            known = min(((self._cost(state, step), step) for step in self._steps(state)),
                        key=lambda costed: costed[0])
            self._best[state] = known
        return known

    def _steps(self, state: State) -> Iterator[Step]:
        """Yield every step that the draft cache's rules allow."""
        absent = [name for name in self._drafts if name not in state.resident
                  and all(name != load for load, _ in state.loads)]
        num_free = self._capacity - len(state.resident) - len(state.loads)
        for active in (*sorted(state.resident), *self._runnable_always):
            evictable = sorted(state.resident - {active, state.active})
            yield Step(active)
            if state.position == 0:
                continue  # the first scheduling point's loads are the start's
            for size in range(1, min(len(absent), num_free + len(evictable)) + 1):
                for started in permutations(absent, size):
                    for evicted in combinations(evictable, max(0, size - num_free)):
                        yield Step(active, frozenset(evicted), started)

    def _cost(self, state: State, step: Step) -> float:
        loads = self._queued(state.loads, step.started)
        position, seconds, finished = self._run_interval(state, step.active, loads)
        if finished:
            return seconds
        arrived = frozenset(name for name, left_s in loads if left_s <= seconds)
        rest = tuple((name, round(left_s - seconds, 9)) for name, left_s in loads
                     if left_s > seconds)
        resident = (state.resident - step.evicted) | arrived
        return seconds + self._solve(State(position, resident, rest, step.active))[0]

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
        key = (state.position, draft)
        if key not in self._intervals:
            self._intervals[key] = self._simulate(state.position, draft, 0.0, 0.0, 1.0)
        position, seconds, finished = self._intervals[key]
        return position, seconds + switch_s, finished

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


class OracleDynamic:
    """Follows the best schedule (an upper bound for every policy under the same rules).

    :param table_of: the acceptance table of the goal at hand.
    :param draft_length: fixed; the oracle chooses drafts, not lengths.
    :param clock: tells how far loads have come.
    """

    def __init__(self, profile: DeviceProfile, *, drafts: Sequence[str], draft_length: int,
                 clock: Clock, table_of: Callable[[TokenContext], GoalTable] | None = None,
                 ) -> None:
        self._profile = profile
        self._drafts = tuple(drafts)
        self._draft_length = draft_length
        self._clock = clock
        self._table_of = table_of or _table_of_context
        self._ends_s: dict[str, float] = {}
        self._schedule: Schedule | None = None

    def plan(self, context: PlanContext) -> Plan:
        """Take the next step of the best schedule from where decoding stands."""
        if context.point == 0 or self._schedule is None:
            return self._start(context)
        position = len(context.goal.tokens) - context.goal.prompt_length
        state = State(position, context.resident, self._loads(context.loading), context.active)
        step = self._schedule.best_step(state)
        self._queue(context.loading, step.started)
        kept = context.resident - step.evicted - {step.active}
        return self._plan(context, step.active, (*context.loading, *step.started), kept)

    def observe(self, outcome: IterationOutcome) -> None:
        """Learn nothing: all is known."""

    def observe_catch_up(self, draft: str, flags: Sequence[bool]) -> None:
        """Learn nothing."""

    def reset(self) -> None:
        """Forget the goal at hand."""
        self._schedule = None

    def _start(self, context: PlanContext) -> Plan:
        self._schedule = Schedule(
            self._table_of(context.goal), self._profile, drafts=self._drafts,
            always_resident=context.always_resident, cache_capacity=context.cache_capacity,
            scheduling_interval=context.scheduling_interval, draft_length=self._draft_length)
        start = self._schedule.best_start()
        if not start:
            return Plan(ranking=context.always_resident, scores={})
        self._ends_s.clear()
        self._queue((), start)
        plan = self._plan(context, start[0], start[1:], frozenset())
        return Plan(ranking=plan.ranking, scores=plan.scores, working_set=plan.working_set,
                    awaited=start[0])

    def _plan(self, context: PlanContext, active: str, loads: Sequence[str],
              kept: frozenset[str]) -> Plan:
        wanted = tuple(name for name in (active, *loads, *sorted(kept)) if name in self._drafts)
        rest = tuple(name for name in (*context.candidates, *context.always_resident)
                     if name != active)
        return Plan(ranking=(active, *rest), working_set=wanted,
                    scores={name: float(name in wanted) for name in (active, *rest)})

    def _queue(self, loading: Sequence[str], started: Sequence[str]) -> None:
        """Note when loads that are asked for now will end."""
        end_s = max([self._clock()] + [self._ends_s[name] for name in loading])
        for name in started:
            end_s += self._profile.load_of(name)
            self._ends_s[name] = end_s

    def _loads(self, loading: Sequence[str]) -> Loads:
        now_s = self._clock()
        return tuple((name, round(max(0.0, self._ends_s[name] - now_s), 9)) for name in loading)


def best_static_draft(table: GoalTable, profile: DeviceProfile, *, drafts: Sequence[str],
                      draft_length: int) -> str:
    """Return the draft with the least decode time for a goal (Oracle-Static, offline)."""
    def decode_s(draft: str) -> float:
        schedule = Schedule(table, profile, drafts=(draft,), always_resident=(),
                            cache_capacity=1, scheduling_interval=table.max_tokens,
                            draft_length=draft_length)
        return schedule.remaining_s(schedule.start_state((draft,)))
    return min(drafts, key=decode_s)


def _table_of_context(context: TokenContext) -> GoalTable:
    if isinstance(context, TableContext):
        return context.table
    raise DataError('Oracle-Dynamic has no acceptance table of this goal')
