# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Every strategy's answer to a scheduling point."""

from __future__ import annotations

import math

import pytest

from memspec_ros.boundaries import IterationOutcome
from memspec_ros.config import POLICIES, RuntimeSettings
from memspec_ros.errors import ConfigError
from memspec_ros.prediction.predictor import Prediction, UniformPredictor
from memspec_ros.runtime.cost_model import CostModel
from memspec_ros.runtime.plan import PlanContext, PoolDraft, led_by
from memspec_ros.runtime.policies import policy_factory
from memspec_ros.runtime.policies.bandit import Arm, ucb1_index, ucb_spec_index
from memspec_ros.runtime.policies.memspec_online import prior_rates
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


def policy(name, *, scores=None, rates=None, cost_model=None, **settings):
    predictor = FixedPredictor(scores, rates=rates) if scores else UniformPredictor(NAMES)
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


def test_prediction_only_loads_one_draft_at_a_time():
    prediction_only = policy('prediction_only', scores=SCORES)
    assert prediction_only.plan(context()).working_set == ('code',)
    assert prediction_only.plan(context(1, loading=('law',))).working_set == ('law',)
    assert prediction_only.plan(context(1, loading=('law',))).desired == 'code'


def measured_costs():
    model = CostModel(max_draft_length=3)
    for width in (1, 2, 3, 4):
        model.measure_target(width, 0.010)
    for draft in (*NAMES, 'ngram'):
        model.measure_draft_step(draft, 0.001)
        model.measure_catch_up(draft, 0.001)
    return model


def test_online_starts_from_the_predicted_rates():
    online = policy('memspec_online', scores=SCORES, cost_model=measured_costs(),
                    rates={'law': 0.9, 'general': 0.5, 'code': 0.6})
    plan = online.plan(context(always=('',)))
    assert plan.ranking[:3] == ('law', 'code', 'general')
    assert plan.working_set == ('law', 'code')
    assert plan.awaited == 'law'
    assert online.plan(context(resident=('code',), always=('',))).awaited == ''


def test_online_is_corrected_by_what_a_resident_draft_would_have_had_accepted():
    online = policy('memspec_online', scores=SCORES, cost_model=measured_costs(),
                    rates={'law': 0.6, 'general': 0.55, 'code': 0.5})
    for _ in range(4):
        online.observe_catch_up('code', [True] * 8)
        online.observe_catch_up('law', [False] * 8)
    plan = online.plan(context(1, resident=('law', 'code'), active='law'))
    assert plan.desired == 'code'


def test_online_judges_the_drafts_that_come_close_and_the_ngram():
    online = policy('memspec_online', scores=SCORES, cost_model=measured_costs(),
                    rates={'law': 0.8, 'general': 0.3, 'code': 0.79})
    assert online.plan(context(1, active='law')).catch_up == ('law', 'code', 'ngram')


def test_online_frees_the_slot_of_a_draft_it_leaves():
    online = policy('memspec_online', scores=SCORES, cost_model=measured_costs(),
                    rates={'law': 0.2, 'general': 0.5, 'code': 0.9})
    plan = online.plan(context(1, resident=('law', 'general'), active='law', always=('',)))
    assert plan.protected == 'general'
    assert plan.working_set == ('code', 'general')


def test_online_loads_only_what_beats_clearly_all_that_can_run():
    def plan(code_rate, **now):
        online = policy('memspec_online', scores=SCORES, cost_model=measured_costs(),
                        rates={'law': 0.6, 'general': 0.6, 'code': code_rate})
        return online.plan(context(1, active='law', always=('',), **now))
    close = plan(0.63, resident=('law', 'general'))
    assert (close.desired, set(close.working_set)) == ('law', {'law', 'general'})
    better = plan(0.85, resident=('law', 'general'))
    assert (better.desired, better.working_set) == ('code', ('code', 'law'))
    # What is on its way stays wanted; an empty draft cache is filled.
    assert 'code' in plan(0.63, resident=('law',), loading=('code',)).working_set
    assert len(plan(0.63).working_set) == 2


def test_online_prefers_the_active_draft_among_equals():
    online = policy('memspec_online', cost_model=measured_costs())
    assert online.plan(context(1, active='code', always=('',))).desired == 'code'


def test_online_decodes_plain_when_no_draft_pays():
    costs = measured_costs()
    for draft in NAMES:
        costs.measure_draft_step(draft, 1.0)
    online = policy('memspec_online', cost_model=costs,
                    rates=dict.fromkeys(NAMES, 0.05), scores=SCORES)
    for _ in range(10):
        online.observe_catch_up('ngram', [False] * 8)
    plan = online.plan(context())
    assert plan.desired == ''
    assert plan.awaited == ''


def test_a_predictor_that_only_ranks_tilts_the_common_prior():
    rates = prior_rates(Prediction(scores=SCORES))
    assert rates['code'] > rates['general'] > rates['law']
    assert sum(rates.values()) / 3 == pytest.approx(0.6)


def test_a_hint_leads_the_plan():
    plan = led_by(policy('memspec', scores=SCORES).plan(context()), 'law')
    assert plan.ranking[:2] == ('law', 'code')
    assert plan.working_set == ('law', 'code', 'general')
    assert plan.awaited == 'law'
    assert plan.scores['law'] == 0.5
