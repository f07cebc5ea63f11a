# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Every strategy's answer to a scheduling point."""

from __future__ import annotations

import math

import pytest

from memspec_ros.boundaries import IterationOutcome
from memspec_ros.config import POLICIES, RuntimeSettings
from memspec_ros.errors import ConfigError
from memspec_ros.prediction.predictor import UniformPredictor
from memspec_ros.runtime.cost_model import CostModel
from memspec_ros.runtime.plan import PlanContext, PoolDraft, led_by
from memspec_ros.runtime.policies import policy_factory
from memspec_ros.runtime.policies.bandit import Arm, ucb1_index, ucb_spec_index
from memspec_ros.runtime.policies.static import general_draft
from memspec_ros.testing.fixed_predictor import FixedPredictor
from memspec_ros.testing.scripted_model import ScriptedContext

NAMES = ('law', 'general', 'code')
DRAFTS = [PoolDraft(name=name, domain=name) for name in NAMES]
GOAL = ScriptedContext(tokens=[1], prompt_length=1, target=None)


def context(point=0, *, resident=(), loading=(), active='', candidates=NAMES, capacity=2,
            always=('ngram', '')):
    return PlanContext(point=point, goal=GOAL, candidates=candidates, always_resident=always,
                       resident=frozenset(resident), loading=loading, active=active,
                       cache_capacity=capacity, scheduling_interval=4)


def policy(name, *, scores=None, cost_model=None, **settings):
    predictor = FixedPredictor(scores) if scores else UniformPredictor(NAMES)
    make = policy_factory(drafts=DRAFTS, predictor=predictor,
                          cost_model=cost_model or CostModel(max_draft_length=3))
    return make(RuntimeSettings(**{'policy': name, 'oracle_draft': 'law', **settings}))


def run(policy, draft, committed):
    for number in committed:
        policy.observe(IterationOutcome(draft=draft, num_drafted=3, num_accepted=number - 1,
                                        num_committed=number))


@pytest.mark.parametrize('name', POLICIES)
def test_every_policy_ranks_all_it_may_run_and_survives_an_empty_pool(name):
    plan = policy(name).plan(context(candidates=(), always=('',)))
    assert plan.ranking == ('',)
    assert plan.working_set == ()
    assert plan.awaited == ''


@pytest.mark.parametrize('name', POLICIES)
def test_an_unavailable_draft_is_never_planned(name):
    plan = policy(name).plan(context(candidates=('code',)))
    assert set(plan.ranking) <= {'code', 'ngram', ''}
    assert set(plan.working_set) <= {'code'}


def test_general_static_keeps_the_general_draft():
    static = policy('general_static')
    plan = static.plan(context())
    assert (plan.ranking, plan.working_set) == (('general', 'ngram', ''), ('general',))
    assert plan.awaited == 'general'
    assert static.plan(context(1)).awaited == ''
    assert general_draft([PoolDraft(name='x'), PoolDraft(name='y')]) == 'x'
    assert general_draft([]) == ''


def test_oracle_static_keeps_the_draft_it_is_told():
    assert policy('oracle_static').plan(context()).desired == 'law'
    with pytest.raises(ConfigError, match=r"oracle_draft is 'lwa'.*did you mean 'law'"):
        policy('oracle_static', oracle_draft='lwa')


def test_a_bandit_pulls_each_arm_once_in_the_order_of_the_pool():
    bandit = policy('mab_async')
    asked = []
    for point in range(3):
        plan = bandit.plan(context(point))
        asked.append(plan.desired)
        run(bandit, plan.desired, [2, 2, 2, 2])
    assert tuple(asked) == NAMES


def test_a_bandit_credits_the_draft_that_ran():
    """law is not resident yet, general runs instead and gets the pull."""
    bandit = policy('mab_async', exploration=0.0)
    run(bandit, 'general', [3, 3, 3, 3])
    plan = bandit.plan(context(1))
    assert plan.scores['general'] == 3.0
    assert plan.desired == 'law'


def test_mab_async_waits_for_the_first_draft_only_and_mab_sync_for_each():
    assert policy('mab_async').plan(context()).awaited == 'law'
    assert policy('mab_async').plan(context(1)).awaited == ''
    assert policy('mab_sync').plan(context(1)).awaited == 'law'
    assert policy('bandit_spec').plan(context(1)).awaited == 'law'


def test_a_bandit_wants_its_choice_only():
    assert policy('mab_async').plan(context()).working_set == ('law',)


def test_exploration_returns_to_an_arm_that_was_pulled_little():
    bandit = policy('mab_async', exploration=2.0)
    for draft in NAMES:
        run(bandit, draft, [2])
        bandit.plan(context(1))
    run(bandit, 'law', [3])
    bandit.plan(context(1))
    for _ in range(5):
        run(bandit, 'law', [2])
        last = bandit.plan(context(1))
    assert last.desired == 'general'


def test_a_reset_bandit_has_forgotten():
    bandit = policy('mab_async')
    run(bandit, 'law', [4])
    bandit.reset()
    assert bandit.plan(context(1)).desired == 'law'


def test_the_ucb_indices_are_those_of_the_papers():
    arm = Arm(num_pulls=4, mean=2.5)
    assert ucb1_index(2.0)(arm, 20, 5) == pytest.approx(2.5 + 2.0 * math.sqrt(math.log(20) / 4))
    radius = 1.5 * math.sqrt(5 / 16 * (1 + 2 * math.log(5 * 400 * math.sqrt(5) / 0.05)))
    assert ucb_spec_index(3, confidence=0.05)(arm, 20, 5) == pytest.approx(2.5 + radius)
    fewer = ucb_spec_index(3)(Arm(num_pulls=2, mean=2.5), 20, 5)
    assert fewer > ucb_spec_index(3)(arm, 20, 5)


SCORES = {'law': 0.2, 'general': 0.3, 'code': 0.5}


def test_memspec_wants_the_top_k_and_awaits_the_first_draft_once():
    memspec = policy('memspec', scores=SCORES)
    plan = memspec.plan(context())
    assert plan.ranking == ('code', 'general', 'law', 'ngram', '')
    assert plan.working_set == ('code', 'general')
    assert plan.awaited == 'code'
    assert memspec.plan(context(1, capacity=1)).working_set == ('code',)
    assert memspec.plan(context(1)).awaited == ''


def test_memspec_changes_drafts_for_a_clear_difference_only():
    """What is at hand goes before what scores a little better; absent drafts pay twice."""
    ahead = policy('memspec', scores={'law': 0.38, 'general': 0.2, 'code': 0.42})
    in_use = {'resident': ('law', 'general'), 'active': 'law'}
    assert ahead.plan(context(1)).desired == 'code'
    plan = ahead.plan(context(1, **in_use))
    assert plan.ranking[:3] == ('law', 'code', 'general')
    assert plan.working_set == ('law', 'code')
    assert ahead.plan(context(1, resident=('law',), loading=('code',), active='law')).desired \
        == 'law'
    clearly = policy('memspec', scores={'law': 0.2, 'general': 0.1, 'code': 0.7})
    assert clearly.plan(context(1, **in_use)).desired == 'code'


def test_memspec_prefetches_what_is_likely_to_be_wanted():
    memspec = policy('memspec', scores={'law': 0.25, 'general': 0.15, 'code': 0.6})
    assert memspec.plan(context()).working_set == ('code',)
    kept = memspec.plan(context(1, resident=('law', 'code'), active='code'))
    assert kept.working_set == ('code', 'law')


def test_prediction_only_loads_one_draft_at_a_time():
    prediction_only = policy('prediction_only', scores=SCORES)
    assert prediction_only.plan(context()).working_set == ('code',)
    assert prediction_only.plan(context(1, loading=('law',))).working_set == ('law',)
    assert prediction_only.plan(context(1, loading=('law',))).desired == 'code'


def measured_costs(catch_up_s=0.001):
    model = CostModel(max_draft_length=3)
    for width in (1, 2, 3, 4):
        model.measure_target(width, 0.010)
    for draft in (*NAMES, 'ngram'):
        model.measure_draft_step(draft, 0.001)
        model.measure_catch_up(draft, catch_up_s)
    return model


def online_with(costs=None, **scores):
    return policy('memspec_online', scores=scores, cost_model=costs or measured_costs())


def test_online_starts_from_the_predicted_scores():
    online = online_with(law=0.7, general=0.1, code=0.2)
    plan = online.plan(context(always=('',)))
    assert plan.ranking[:3] == ('law', 'code', 'general')
    assert plan.working_set == ('law', 'code')
    assert plan.awaited == 'law'
    assert online.plan(context(resident=('code',), always=('',))).awaited == ''


def test_online_is_corrected_by_what_a_resident_draft_would_have_had_accepted():
    online = online_with(law=0.4, general=0.3, code=0.3)
    for _ in range(4):
        online.observe_catch_up('code', [True] * 8)
        online.observe_catch_up('law', [False] * 8)
    plan = online.plan(context(1, resident=('law', 'code'), active='law'))
    assert plan.desired == 'code'


def test_online_expects_of_the_others_what_the_draft_that_ran_has_shown():
    """Hard text is hard for all: the next draft is not tried because nothing is known of it."""
    costs = measured_costs()
    online = online_with(costs, law=0.34, general=0.33, code=0.33)
    resident = {'resident': NAMES, 'active': 'law', 'always': ('',), 'capacity': 3}
    assert online.plan(context(1, **resident)).desired == 'law'
    for _ in range(30):
        costs.observe(IterationOutcome(draft='law', num_drafted=3, num_accepted=0, target_s=0.010,
                                       num_committed=1, draft_s=0.003, total_s=0.013), 3)
    assert online.plan(context(2, **resident)).desired not in ('general', 'code')
    assert costs.pace('code')[0] == 1.0


def test_online_judges_the_drafts_that_come_close_and_the_ngram():
    online = online_with(measured_costs(catch_up_s=0.00001), law=0.45, general=0.11, code=0.44)
    assert online.plan(context(1, active='law')).catch_up == ('law', 'code', 'ngram')


def test_online_frees_the_slot_of_a_draft_it_leaves():
    online = online_with(law=0.1, general=0.3, code=0.6)
    plan = online.plan(context(1, resident=('law', 'general'), active='law', always=('',)))
    assert plan.protected == 'general'
    assert plan.working_set == ('code', 'general')


def test_online_loads_only_what_beats_clearly_all_that_can_run():
    def plan(code_score, **now):
        other = (1.0 - code_score) / 2
        online = online_with(measured_costs(catch_up_s=0.00001), law=other, general=other,
                             code=code_score)
        return online.plan(context(1, active='law', always=('',), **now))
    close = plan(0.40, resident=('law', 'general'))
    assert (close.desired, set(close.working_set)) == ('law', {'law', 'general'})
    better = plan(0.9, resident=('law', 'general'))
    assert (better.desired, better.working_set) == ('code', ('code', 'law'))
    # What is on its way stays wanted; an empty draft cache is filled.
    assert 'code' in plan(0.40, resident=('law',), loading=('code',)).working_set
    assert len(plan(0.40).working_set) == 2


def test_online_prefers_the_active_draft_among_equals():
    online = policy('memspec_online', cost_model=measured_costs())
    assert online.plan(context(1, active='code', always=('',))).desired == 'code'


def test_online_decodes_plain_when_no_draft_pays():
    costs = measured_costs()
    online = online_with(costs, **SCORES)
    for name in NAMES:
        for _ in range(60):
            online.observe_catch_up(name, [False] * 8)
    for _ in range(10):
        online.observe_catch_up('ngram', [False] * 8)
    plan = online.plan(context())
    assert plan.desired == ''
    assert plan.awaited == ''


def test_the_prediction_tilts_what_the_pool_has_shown():
    costs = measured_costs()
    online = policy('memspec_online', cost_model=costs, scores=SCORES)
    online.plan(context())
    rates = {name: costs.acceptance(name).rate for name in NAMES}
    assert rates['code'] > rates['general'] > rates['law']
    assert sum(rates.values()) / 3 == pytest.approx(0.6)


def test_a_hint_leads_the_plan():
    plan = led_by(policy('memspec', scores=SCORES).plan(context()), 'law')
    assert plan.ranking[:2] == ('law', 'code')
    assert plan.working_set == ('law', 'code', 'general')
    assert plan.awaited == 'law'
    assert plan.scores['law'] == 0.5
