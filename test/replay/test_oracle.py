# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The oracles, against brute force through the real controller and draft cache."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from memspec_ros.config import RuntimeSettings
from memspec_ros.errors import DataError
from memspec_ros.prediction.predictor import UniformPredictor
from memspec_ros.replay.goal_table import GoalTable
from memspec_ros.replay.oracle import OracleDynamic, best_static_draft
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.replay.replay import Replay
from memspec_ros.replay.schedule import Schedule
from memspec_ros.runtime.plan import Plan, PoolDraft
from memspec_ros.runtime.policies.static import StaticDraft
from memspec_ros.testing.scripted_model import ScriptedContext

NAMES = ('general', 'code', 'math')
PROFILE = DeviceProfile(name='test', target_s=(0.0, *[0.010] * 16), draft_step_s={'': 0.001},
                        load_s={'': 0.015}, catch_up_s=(0.002, 0.0))
SETTINGS = RuntimeSettings(draft_length=3, scheduling_interval=2, reset_per_goal=True)


class OutOfPlansError(Exception):
    """The scripted policy was asked once more than it has plans."""


class Script:
    """Plays plans in turn."""

    def __init__(self, plans):
        self.plans = plans

    def plan(self, context):
        if context.point >= len(self.plans):
            raise OutOfPlansError
        return self.plans[context.point]

    def observe(self, outcome):
        pass

    def observe_catch_up(self, draft, flags):
        pass

    def reset(self):
        pass


def table_of(seed, num_tokens=8, rate=0.7, phases=2):
    """Each draft is good in a part of the answer of its own."""
    rng = np.random.default_rng(seed)
    matches = {}
    for number, name in enumerate(NAMES):
        good = (np.arange(num_tokens) * phases // num_tokens + seed + number) % 3 == 0
        matches[name] = rng.random((num_tokens, 3)) < np.where(good, 0.95, rate)[:, None]
    return GoalTable.from_matches(matches, name=str(seed))


def decode_s(policy_of, table, *, settings=SETTINGS, profile=PROFILE, names=NAMES):
    run = Replay(settings, drafts=[PoolDraft(name=name) for name in names], profile=profile,
                 predictor=UniformPredictor(names))
    run.controller._policy = policy_of(run)
    return run.run_goal(table).time.decode_s


def oracle_s(table, *, settings=SETTINGS, profile=PROFILE, names=NAMES):
    return decode_s(lambda run: OracleDynamic(profile, drafts=names, draft_length=3,
                                              clock=run.clock),
                    table, settings=settings, profile=profile, names=names)


def plans(point, capacity):
    """Every plan that differs: which draft is preferred, and which are wanted in what order."""
    sizes = range(1, capacity + 1) if point == 0 else (0, capacity)
    for wanted in (wanted for size in sizes for wanted in permutations(NAMES, size)):
        for active in (wanted[:1] if point == 0 else (*NAMES, '')):
            ranking = (active, *(name for name in (*NAMES, '') if name != active))
            yield Plan(ranking=ranking, working_set=wanted, awaited='' if point else wanted[0],
                       protected=active if point else None,
                       scores={name: -place for place, name in enumerate(ranking)})


def brute_force_s(table, settings, profile, prefix=()):
    """The least decode time over all sequences of plans."""
    best = float('inf')
    for plan in plans(len(prefix), settings.cache_capacity):
        script = (*prefix, plan)
        try:
            seconds = decode_s(lambda _, script=script: Script(script), table,
                               settings=settings, profile=profile)
        except OutOfPlansError:
            seconds = brute_force_s(table, settings, profile, script)
        best = min(best, seconds)
    return best


@pytest.mark.parametrize('seed', [0, 1])
def test_oracle_dynamic_is_as_good_as_the_best_of_all_schedules(seed):
    table = table_of(seed)
    assert oracle_s(table) == pytest.approx(brute_force_s(table, SETTINGS, PROFILE))


def test_the_papers_oracle_runs_the_pools_drafts_only():
    """On text that is hard for all of them, where plain decoding is faster."""
    table = GoalTable.from_matches({name: np.zeros((8, 3), dtype=bool) for name in NAMES},
                                   name='hard')

    def hard_s(all_arms):
        return decode_s(lambda run: OracleDynamic(PROFILE, drafts=NAMES, draft_length=3,
                                                  clock=run.clock, all_arms=all_arms), table)

    assert hard_s(all_arms=False) == decode_s(lambda _: StaticDraft('general'), table)
    assert hard_s(all_arms=False) > hard_s(all_arms=True)


@pytest.mark.parametrize('change', [
    {'load_s': {'': 0.040}}, {'load_slowdown': 1.5}, {'load_s': {'': 0.015, 'math': 0.001}}])
def test_oracle_dynamic_is_best_with_slow_uneven_and_disturbing_loads(change):
    table, profile = table_of(0), replace(PROFILE, **change)
    assert oracle_s(table, profile=profile) == pytest.approx(
        brute_force_s(table, SETTINGS, profile))


def test_oracle_dynamic_is_best_at_another_capacity():
    table, settings = table_of(2), replace(SETTINGS, cache_capacity=3)
    assert oracle_s(table, settings=settings) == pytest.approx(
        brute_force_s(table, settings, PROFILE))


@pytest.mark.parametrize('change', [
    {}, {'load_s': {'': 0.110}}, {'load_s': {'': 0.110}, 'awaited_load_share': 0.4},
    {'load_slowdown': 1.3}, {'load_s': {'': 0.050, 'math': 0.2}}])
@pytest.mark.parametrize('capacity', [2, 3])
@pytest.mark.parametrize('seed', range(3))
def test_what_the_schedule_promises_the_controller_keeps(seed, capacity, change):
    """Were a step not allowed, or a load forgotten, the replayed time would be another."""
    table, profile = table_of(seed, num_tokens=120, rate=0.4, phases=9), replace(PROFILE, **change)
    settings = replace(SETTINGS, cache_capacity=capacity)
    schedule = Schedule(table, profile, drafts=NAMES, always_resident=('',), draft_length=3,
                        cache_capacity=capacity, scheduling_interval=2)
    promised_s = schedule.remaining_s([schedule.start_state(schedule.best_start())])
    assert oracle_s(table, settings=settings, profile=profile) == pytest.approx(promised_s)


@pytest.mark.parametrize('policy', ['general_static', 'oracle_static', 'mab_async', 'memspec',
                                    'prediction_only', 'memspec_online', 'mab_sync'])
@pytest.mark.parametrize('seed', range(3))
def test_no_strategy_beats_it(policy, seed):
    table = table_of(seed, num_tokens=80, phases=4)
    settings = replace(SETTINGS, policy=policy, scheduling_interval=4, oracle_draft='math')
    assert oracle_s(table, settings=settings) <= decode_s(
        lambda run: run.controller._policy, table, settings=settings) + 1e-9


def test_the_static_oracle_keeps_the_draft_of_the_least_time():
    table = table_of(0, num_tokens=60, phases=1)
    times = {name: decode_s(lambda run: run.controller._policy, table,
                            settings=replace(SETTINGS, policy='oracle_static', oracle_draft=name))
             for name in NAMES}
    assert best_static_draft(table, PROFILE, drafts=NAMES, draft_length=3) == \
        min(times, key=times.get)


def test_an_oracle_without_a_table_says_so():
    oracle = OracleDynamic(PROFILE, drafts=NAMES, draft_length=3, clock=lambda: 0.0)
    with pytest.raises(DataError, match='no acceptance table'):
        oracle._table_of(ScriptedContext(tokens=[1], prompt_length=1, target=None))
