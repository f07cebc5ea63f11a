# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Oracle-Dynamic's schedule, worked out ahead and followed by position."""

from __future__ import annotations

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


def table():
    """The best draft changes twice."""
    best = {name: np.zeros((60, 4), dtype=bool) for name in NAMES}
    best['code'][:20] = best['law'][20:40] = best['general'][40:] = True
    return GoalTable.from_matches(best, name='goal', domain='code')


def replayed(policy_of):
    replay = Replay(SETTINGS, drafts=DRAFTS, profile=ORIN_NANO,
                    predictor=UniformPredictor(NAMES))
    replay.controller.use_policy(policy_of(replay))
    return replay.run_goal(table())


def test_the_followed_schedule_is_the_oracles_own():
    plans = plan_ahead(table(), ORIN_NANO, drafts=DRAFTS, settings=SETTINGS)
    followed = replayed(lambda _: plans)
    oracle = replayed(lambda replay: OracleDynamic(
        ORIN_NANO, drafts=NAMES, draft_length=3, clock=replay.clock))
    assert followed.time.decode_s == oracle.time.decode_s
    assert followed.drafts_used == oracle.drafts_used
    assert len(followed.drafts_used) >= 2


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
