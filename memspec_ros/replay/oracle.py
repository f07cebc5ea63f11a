# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Oracle-Dynamic and the choice of Oracle-Static: what could be had with knowledge of the future.

Both know the acceptance table of the goal. Oracle-Dynamic obeys every rule that the others obey:
the same scheduling points, K slots, one load at a time at the profile's speed, the draft that
runs next protected. At each scheduling point it takes the step of a schedule with the least
remaining decode time; its horizon is the end of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memspec_ros.boundaries import Clock, IterationOutcome, TokenContext
from memspec_ros.errors import DataError
from memspec_ros.replay.goal_table import GoalTable, TableContext
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.replay.schedule import Loads, Schedule, State
from memspec_ros.runtime.plan import Plan, PlanContext


class OracleDynamic:
    """Follows the best schedule (an upper bound for every policy under the same rules).

    :param table_of: the acceptance table of the goal at hand.
    :param draft_length: fixed; the oracle chooses drafts, not lengths.
    :param all_arms: let it run what needs no slot, too; the paper's runs the pool's drafts.
    :param clock: tells how far loads have come.
    """

    def __init__(self, profile: DeviceProfile, *, drafts: Sequence[str], draft_length: int,
                 clock: Clock, table_of: Callable[[TokenContext], GoalTable] | None = None,
                 all_arms: bool = True) -> None:
        self._profile = profile
        self._drafts = tuple(drafts)
        self._draft_length = draft_length
        self._clock = clock
        self._table_of = table_of or _table_of_context
        self._all_arms = all_arms
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
            always_resident=context.always_resident if self._all_arms or not self._drafts else (),
            cache_capacity=context.cache_capacity,
            scheduling_interval=context.scheduling_interval, draft_length=self._draft_length)
        start = self._schedule.best_start()
        if not start:
            return Plan(ranking=context.always_resident, scores={})
        self._ends_s.clear()
        self._queue((), start, awaited=start[0])
        plan = self._plan(context, start[0], start[1:], frozenset())
        return Plan(ranking=plan.ranking, scores=plan.scores, working_set=plan.working_set,
                    awaited=start[0])

    def _plan(self, context: PlanContext, active: str, loads: Sequence[str],
              kept: frozenset[str]) -> Plan:
        wanted = tuple(name for name in (active, *loads, *sorted(kept)) if name in self._drafts)
        rest = tuple(name for name in (*context.candidates, *context.always_resident)
                     if name != active)
        return Plan(ranking=(active, *rest), working_set=wanted, protected=active,
                    scores={name: float(name in wanted) for name in (active, *rest)})

    def _queue(self, loading: Sequence[str], started: Sequence[str], awaited: str = '') -> None:
        """Note when loads that are asked for now will end."""
        end_s = max([self._clock()] + [self._ends_s[name] for name in loading])
        for name in started:
            share = self._profile.awaited_load_share if name == awaited else 1.0
            end_s += share * self._profile.load_of(name)
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
        return schedule.remaining_s([schedule.start_state((draft,))])
    return min(drafts, key=decode_s)


def _table_of_context(context: TokenContext) -> GoalTable:
    if isinstance(context, TableContext):
        return context.table
    raise DataError('Oracle-Dynamic has no acceptance table of this goal')
