# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Oracle-Dynamic in real time: its schedule is worked out ahead, on the virtual clock.

To search for it while decoding would cost time that an oracle does not need, and loads would go
on meanwhile; so the search happens before the goal, and decoding follows what it found. A load
that comes a little late misses its scheduling point, and what was planned from there on; so the
plan grants loads more time than they take in the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memspec_ros.boundaries import IterationOutcome
from memspec_ros.config import RuntimeSettings
from memspec_ros.prediction.predictor import UniformPredictor
from memspec_ros.replay.goal_table import GoalTable
from memspec_ros.replay.oracle import OracleDynamic
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.replay.replay import Replay
from memspec_ros.runtime.plan import NGRAM_DRAFT, PLAIN_DRAFT, Plan, PlanContext, PoolDraft

# Real loads vary by so much.
LOAD_ALLOWANCE = 1.2


class _Recorder:
    """Passes on to the oracle and keeps what it answers, by output position."""

    def __init__(self, oracle: OracleDynamic) -> None:
        self._oracle = oracle
        self.plans: list[tuple[int, Plan]] = []

    def plan(self, context: PlanContext) -> Plan:
        plan = self._oracle.plan(context)
        self.plans.append((output_position(context), plan))
        return plan

    def observe(self, outcome: IterationOutcome) -> None:
        self._oracle.observe(outcome)

    def observe_catch_up(self, draft: str, flags: Sequence[bool]) -> None:
        self._oracle.observe_catch_up(draft, flags)

    def reset(self) -> None:
        self._oracle.reset()


class FollowedPlans:
    """Answers with the plan that was made for where decoding stands, or the last one before.

    Output is the same under every strategy, so a schedule holds by position; where a load came
    later than foreseen, the best resident draft of the plan runs meanwhile.

    :param plans: output position and plan, the first at 0.
    """

    def __init__(self, plans: Sequence[tuple[int, Plan]]) -> None:
        self._plans = tuple(plans)

    def plan(self, context: PlanContext) -> Plan:
        """Return the plan of the position."""
        position = output_position(context)
        return [plan for at, plan in self._plans if at <= position][-1]

    def observe(self, outcome: IterationOutcome) -> None:
        """Learn nothing: all is known."""

    def observe_catch_up(self, draft: str, flags: Sequence[bool]) -> None:
        """Learn nothing."""

    def reset(self) -> None:
        """Forget nothing."""


def plan_ahead(table: GoalTable, profile: DeviceProfile, *, drafts: Sequence[PoolDraft],
               settings: RuntimeSettings, all_arms: bool = True) -> FollowedPlans:
    """Return Oracle-Dynamic's schedule of a goal on a device.

    :param all_arms: with n-gram draft and plain decoding among the arms.
    :raises DataError: the table was not unrolled far enough for the draft length.
    """
    has_ngram = NGRAM_DRAFT in table.runs
    profile = replace(profile, load_s={draft: LOAD_ALLOWANCE * load_s
                                       for draft, load_s in profile.load_s.items()})
    replay = Replay(settings, drafts=drafts, profile=profile,
                    predictor=UniformPredictor([draft.name for draft in drafts]),
                    always_resident=(NGRAM_DRAFT, PLAIN_DRAFT) if has_ngram else (PLAIN_DRAFT,))
    recorder = _Recorder(OracleDynamic(
        profile, drafts=[draft.name for draft in drafts], clock=replay.clock,
        draft_length=settings.draft_length, all_arms=all_arms))
    replay.controller.use_policy(recorder)
    replay.run_goal(table)
    return FollowedPlans(recorder.plans)


def output_position(context: PlanContext) -> int:
    """Return how many tokens of the answer there are."""
    return len(context.goal.tokens) - context.goal.prompt_length
