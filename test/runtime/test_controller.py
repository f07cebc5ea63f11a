# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Algorithm 3 with a scripted policy, a manual loader and a virtual clock."""

from __future__ import annotations

import dataclasses

import pytest

from memspec_ros.boundaries import IterationOutcome
from memspec_ros.config import RuntimeSettings
from memspec_ros.errors import BudgetError
from memspec_ros.records import FinishReason
from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.runtime.controller import Controller
from memspec_ros.runtime.cost_model import CostModel
from memspec_ros.runtime.draft_cache import DraftCache
from memspec_ros.runtime.plan import Plan, PoolDraft
from memspec_ros.testing.manual_loader import ManualLoader
from memspec_ros.testing.scripted_model import ScriptedContext

NAMES = ('general', 'code', 'math')


class TableLikeExecutor:
    """Commits 2 tokens an iteration, takes 10 ms, ends after so many iterations."""

    def __init__(self, clock, num_iterations):
        self.clock = clock
        self.num_left = num_iterations
        self.calls = []
        self.judged = []

    def iterate(self, draft, draft_length):
        self.calls.append((draft, draft_length))
        self.clock.advance(0.01)
        self.num_left -= 1
        num_drafted = draft_length if draft else 0
        return IterationOutcome(draft=draft, num_drafted=num_drafted,
                                num_accepted=min(1, num_drafted),
                                num_committed=1 + min(1, num_drafted),
                                target_s=0.008, draft_s=0.001, total_s=0.01,
                                finished=None if self.num_left else FinishReason.LENGTH)

    def catch_up(self, draft):
        self.judged.append(draft)
        return [True]


class ScriptedPolicy:
    """Plays plans in turn (the last one again and again) and takes 1 ms for each."""

    def __init__(self, clock, *plans):
        self.clock = clock
        self.plans = plans
        self.contexts = []
        self.outcomes = []
        self.flags = []
        self.num_resets = 0

    def plan(self, context):
        self.contexts.append(context)
        self.clock.advance(0.001)
        return self.plans[min(context.point, len(self.plans) - 1)]

    def observe(self, outcome):
        self.outcomes.append(outcome)

    def observe_catch_up(self, draft, flags):
        self.flags.append((draft, list(flags)))

    def reset(self):
        self.num_resets += 1


def ranked(*names, size=2, awaited='', catch_up=()):
    scores = {name: 1.0 - 0.1 * place for place, name in enumerate(names)}
    return Plan(ranking=(*names, 'ngram', ''), scores=scores, working_set=names[:size],
                awaited=awaited, catch_up=catch_up)


class Bench:
    """A controller with its fakes."""

    def __init__(self, *plans, names=NAMES, loader=None, **settings):
        self.clock = VirtualClock()
        self.loader = loader or ManualLoader()
        self.cache = DraftCache(drafts=[PoolDraft(name=name) for name in names],
                                loader=self.loader, num_slots=2, clock=self.clock)
        self.policy = ScriptedPolicy(self.clock, *plans)
        self.settings = RuntimeSettings(**{'draft_length': 3, **settings})
        self.controller = Controller(
            settings=self.settings, draft_cache=self.cache, clock=self.clock,
            cost_model=CostModel(max_draft_length=7), always_resident=('ngram', ''),
            make_policy=lambda _: self.policy)

    def run(self, num_iterations, **goal):
        executor = TableLikeExecutor(self.clock, num_iterations)
        context = ScriptedContext(tokens=[1], prompt_length=1, target=None)
        for _ in self.controller.decode(context, executor, **goal):
            pass
        return executor


def test_only_the_first_draft_is_awaited():
    bench = Bench(ranked('code', 'math', awaited='code'), ranked('math', 'code'))
    executor = bench.run(8)
    assert [draft for draft, _ in executor.calls] == ['code'] * 8
    assert bench.loader.in_flight == {'math': 1}


def test_a_draft_becomes_eligible_at_the_scheduling_point_after_its_load():
    bench = Bench(ranked('code', 'math', awaited='code'), ranked('math', 'code'))
    executor = TableLikeExecutor(bench.clock, 12)
    context = ScriptedContext(tokens=[1], prompt_length=1, target=None)
    for number, _ in enumerate(bench.controller.decode(context, executor), start=1):
        if number == 5:
            bench.loader.finish('math')
    assert [draft for draft, _ in executor.calls] == ['code'] * 8 + ['math'] * 4


def test_an_interval_has_n_iterations():
    bench = Bench(ranked('code', awaited='code'), scheduling_interval=3)
    bench.run(7)
    assert [context.point for context in bench.policy.contexts] == [0, 1, 2]


def test_the_context_tells_residents_loads_active_and_capacity():
    bench = Bench(ranked('code', 'math', awaited='code'))
    bench.run(5)
    first, second = bench.policy.contexts
    assert (first.resident, first.loading, first.active) == (frozenset(), (), '')
    assert (second.resident, second.loading, second.active) == ({'code'}, ('math',), 'code')
    assert second.cache_capacity == 2
    assert second.candidates == NAMES
    assert second.always_resident == ('ngram', '')


def test_without_residents_the_ngram_draft_serves():
    bench = Bench(ranked('code'))
    executor = bench.run(6)
    assert [draft for draft, _ in executor.calls] == ['ngram'] * 6


def test_an_empty_pool_decodes_plain_at_length_0():
    bench = Bench(Plan(ranking=('',), scores={}), names=())
    executor = bench.run(2)
    assert executor.calls == [('', 0), ('', 0)]


def test_a_failed_first_draft_is_replaced_by_the_best_resident():
    class FailingLoader(ManualLoader):
        def wait(self):
            if 'code' in self.in_flight:
                self.fail('code', 'damaged')
            return super().wait()

    bench = Bench(ranked('code', 'math', awaited='code'), loader=FailingLoader())
    executor = bench.run(2)
    assert [draft for draft, _ in executor.calls] == ['ngram'] * 2
    assert bench.cache.residency().drafts[1].reason == 'damaged'


def test_times_partition_the_decode_time():
    bench = Bench(ranked('code', 'math', awaited='code'), ranked('math', 'code'))
    bench.run(8)
    goal = bench.controller.metrics.goal
    assert goal.startup_prediction_s == pytest.approx(0.001)
    assert goal.time.desired_s == pytest.approx(0.04)
    assert goal.time.fallback_s == pytest.approx(0.04)
    assert goal.time.prediction_s == pytest.approx(0.001)
    assert goal.time.decode_s == pytest.approx(bench.clock() - 0.001)
    shares = goal.time.shares()
    assert shares.desired + shares.fallback + shares.prediction + shares.load_wait \
        == pytest.approx(1.0)
    assert (goal.num_hits, goal.num_points) == (1, 2)


def test_a_blocking_plan_counts_as_load_wait():
    class SlowLoader(ManualLoader):
        def wait(self):
            bench.clock.advance(0.027)
            return super().wait()

    bench = Bench(ranked('code', size=1, awaited='code'),
                  ranked('math', size=1, awaited='math'), loader=SlowLoader())
    bench.run(8)
    goal = bench.controller.metrics.goal
    assert goal.startup_load_wait_s == pytest.approx(0.027)
    assert goal.time.load_wait_s == pytest.approx(0.027)
    assert goal.time.fallback_s == 0.0


def test_judged_drafts_are_the_resident_inactive_ones():
    bench = Bench(ranked('code', 'math', awaited='code', catch_up=('code', 'math', 'ngram')))
    executor = bench.run(5)
    assert executor.judged == ['ngram']
    assert bench.policy.flags == [('ngram', [True])]


def test_a_goal_may_start_with_a_hinted_draft_and_its_own_draft_length():
    bench = Bench(ranked('code', 'math', awaited='code'), ranked('code', 'math'))
    executor = bench.run(5, draft_hint='math', draft_length=2)
    assert executor.calls[:4] == [('math', 2)] * 4


def test_settings_take_effect_at_the_next_scheduling_point():
    bench = Bench(ranked('code', awaited='code'))
    executor = TableLikeExecutor(bench.clock, 9)
    context = ScriptedContext(tokens=[1], prompt_length=1, target=None)
    for number, _ in enumerate(bench.controller.decode(context, executor), start=1):
        if number == 2:
            bench.controller.apply(dataclasses.replace(
                bench.settings, draft_length=1, scheduling_interval=2, cache_capacity=1))
    assert [length for _, length in executor.calls] == [3] * 4 + [1] * 5
    assert [context.point for context in bench.policy.contexts] == [0, 1, 2, 3]
    assert bench.cache.capacity == 1


def test_a_capacity_that_does_not_fit_is_refused_while_running():
    bench = Bench(ranked('code', awaited='code'))
    with pytest.raises(BudgetError, match='the largest that fits is 2'):
        bench.controller.apply(dataclasses.replace(bench.settings, cache_capacity=3))
    bench.run(1)
    assert bench.controller.settings.cache_capacity == 2


def test_reset_per_goal_empties_the_draft_cache():
    bench = Bench(ranked('code', awaited='code'), reset_per_goal=True)
    bench.run(1)
    bench.run(1)
    assert bench.loader.started == ['code', 'code']
    assert bench.policy.num_resets == 2


def test_the_draft_cache_stays_warm_between_goals():
    bench = Bench(ranked('code', awaited='code'))
    bench.run(1)
    bench.run(1)
    assert bench.loader.started == ['code']


def test_an_adaptive_length_comes_from_the_cost_model():
    bench = Bench(ranked('code', awaited='code'), draft_length=-1)
    executor = bench.run(3)
    assert all(0 <= length <= 7 for _, length in executor.calls)
    assert len(bench.policy.outcomes) == 3


def test_loads_and_catch_ups_are_timed_for_the_cost_model():
    bench = Bench(ranked('code', 'math', awaited='code', catch_up=('math',)))
    cost_model = bench.controller._cost_model
    executor = TableLikeExecutor(bench.clock, 9)
    executor.catch_up = lambda _: bench.clock.advance(0.004) or []
    context = ScriptedContext(tokens=[1], prompt_length=1, target=None)
    for number, _ in enumerate(bench.controller.decode(context, executor), start=1):
        if number == 1:
            bench.loader.finish('math', seconds=0.25)
    assert cost_model.load_s('math') == 0.25
    assert cost_model.catch_up_s('math') == pytest.approx(0.004)


def test_a_policy_that_no_setting_names_takes_over_at_the_next_point():
    bench = Bench(ranked('code', awaited='code'))
    other = ScriptedPolicy(bench.clock, ranked('math', awaited='math'))
    bench.controller.use_policy(other)
    assert bench.run(2).calls[0] == ('math', 3)
    bench.controller.apply(bench.settings)
    assert bench.run(2).calls[0] == ('code', 3)
