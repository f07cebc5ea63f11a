# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Oracle-Dynamic's schedule, worked out ahead and followed by position."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memspec_ros.bench.followed_plans import FollowedPlans, plan_ahead
from memspec_ros.config import RuntimeSettings
from memspec_ros.prediction.predictor import UniformPredictor
from memspec_ros.replay.goal_table import GoalTable
from memspec_ros.replay.oracle import OracleDynamic
from memspec_ros.replay.profile import ORIN_NANO
from memspec_ros.replay.replay import Replay
from memspec_ros.runtime.plan import Plan, PoolDraft

NAMES = ('general', 'code', 'law')
DRAFTS = [PoolDraft(name=name, domain=name) for name in NAMES]
SETTINGS = RuntimeSettings(draft_length=3, reset_per_goal=True, cache_capacity=2)


def table(num_tokens=60, phase=20):
    """The best draft changes after every phase."""
    best = {name: np.zeros((num_tokens, 4), dtype=bool) for name in NAMES}
    for number, start in enumerate(range(0, num_tokens, phase)):
        best[('code', 'law', 'general')[number % 3]][start:start + phase] = True
    return GoalTable.from_matches(best, name='goal', domain='code')


def replayed(policy_of, profile=ORIN_NANO, goal=None):
    replay = Replay(SETTINGS, drafts=DRAFTS, profile=profile,
                    predictor=UniformPredictor(NAMES))
    replay.controller.use_policy(policy_of(replay))
    return replay.run_goal(goal or table())


def test_the_followed_schedule_is_the_oracles_own():
    plans = plan_ahead(table(), ORIN_NANO, drafts=DRAFTS, settings=SETTINGS)
    followed = replayed(lambda _: plans)
    oracle = replayed(lambda replay: OracleDynamic(
        ORIN_NANO, drafts=NAMES, draft_length=3, clock=replay.clock))
    assert followed.time.decode_s == oracle.time.decode_s
    assert followed.drafts_used == oracle.drafts_used
    assert len(followed.drafts_used) >= 2


def test_loads_that_come_a_little_late_are_planned_for():
    def loads(iterations):
        return {'': iterations * ORIN_NANO.iteration_s('code', 3)}

    goal = table(160, phase=16)     # an interval of four iterations in which all is accepted
    almost_an_interval = replace(ORIN_NANO, load_s=loads(3.6))
    plans = plan_ahead(goal, almost_an_interval, drafts=DRAFTS, settings=SETTINGS)
    late = replayed(lambda _: plans, replace(ORIN_NANO, load_s=loads(4.1)), goal)
    assert len(late.drafts_used) > 1
    assert late.time.fallback_s == 0.0


class At:
    """A context that stands after some output tokens."""

    def __init__(self, num_output):
        self.goal = self
        self.prompt_length = 5
        self.tokens = range(5 + num_output)


def test_between_two_plans_the_earlier_one_holds():
    first, second = (Plan(ranking=(name, ''), scores={}) for name in ('code', 'law'))
    plans = FollowedPlans([(0, first), (9, second)])
    assert [plans.plan(At(position)).desired for position in (0, 8, 9, 30)] == [
        'code', 'code', 'law', 'law']
