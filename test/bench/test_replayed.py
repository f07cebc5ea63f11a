# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The comparison in replay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from memspec_ros.bench.replayed import ReplayBench, agreement, cut
from memspec_ros.bench.strategies import STRATEGIES, choose_strategies
from memspec_ros.bench.summary import summarise
from memspec_ros.config import RuntimeSettings
from memspec_ros.prediction.predictor import Prediction, UniformPredictor
from memspec_ros.replay.goal_table import GoalTable
from memspec_ros.replay.profile import ORIN_NANO
from memspec_ros.runtime.plan import PoolDraft

NAMES = ('general', 'code', 'math', 'law')


def table_of(number, num_tokens=128, phase=32):
    """Each phase of the answer has a draft of its own; the predictor sees the next one coming."""
    rng = np.random.default_rng(number)
    best = [NAMES[1 + (number + at // phase) % 3] for at in range(num_tokens + phase + 1)]
    matches = {}
    for name in NAMES:
        rate = np.where(np.array(best[:num_tokens]) == name, 0.9, 0.45)
        matches[name] = rng.random((num_tokens, 4)) < rate[:, None]
    table = GoalTable.from_matches(matches, name=f'goal-{number}', domain=best[0])
    said = [Prediction(scores={name: 0.6 * (name == best[at]) + 0.3 * (name == best[at + phase])
                               for name in NAMES}) for at in range(num_tokens + 1)]
    return replace(table, predictions=said)


def bench(num_goals=6, **settings):
    settings = RuntimeSettings(**{'draft_length': 3, 'reset_per_goal': True, **settings})
    return ReplayBench(tables=[table_of(number) for number in range(num_goals)],
                       drafts=[PoolDraft(name=name, domain=name) for name in NAMES],
                       profile=ORIN_NANO, predictor=UniformPredictor(NAMES), settings=settings)


@pytest.fixture(scope='module')
def summary():
    names = [name for name in STRATEGIES if name != 'ngram' and 'adaptive' not in name]
    return summarise(bench().run_all(choose_strategies(names)))


def test_the_strategies_come_out_in_the_papers_order(summary):
    rate = summary.gmean
    assert rate['plain'] < rate['general_static'] < rate['oracle_static']
    assert rate['mab_sync'] < rate['mab_async'] < rate['memspec'] <= rate['oracle_dynamic']
    assert rate['general_static'] < rate['prediction_only'] <= rate['memspec']
    assert rate['oracle_static'] < rate['oracle_dynamic']


def test_the_shares_are_as_in_the_paper(summary):
    assert summary.shares['mab_sync']['load_wait'] > 0.2
    assert summary.shares['mab_async']['fallback'] > 0.3
    assert summary.shares['memspec']['fallback'] < 0.1
    assert summary.shares['general_static']['desired'] == 1.0
    for shares in summary.shares.values():
        assert sum(shares.values()) == pytest.approx(1.0)


def test_more_capacity_helps_the_bandit_more_than_memspec():
    def rate(strategy, capacity):
        records = bench(cache_capacity=capacity).run(STRATEGIES[strategy])
        return summarise(records).gmean[strategy]

    bandit = rate('mab_async', 4) / rate('mab_async', 2)
    memspec = rate('memspec', 4) / rate('memspec', 2)
    assert bandit > memspec > 0.99


def test_an_answer_cut_short_is_what_it_would_have_been():
    table = table_of(0)
    short = cut(table, 50)
    assert (short.num_tokens, short.max_tokens, len(short.predictions)) == (50, 50, 51)
    assert all(run <= 50 - position for runs in short.runs.values()
               for position, run in enumerate(runs))
    assert cut(replace(table, max_tokens=200), 150).max_tokens == 150
    records = bench(2).with_output(64).run(STRATEGIES['memspec'])
    assert [record.num_tokens for record in records] == [64, 64]


def test_settings_can_be_varied():
    few = bench(2).with_settings(scheduling_interval=16).run(STRATEGIES['memspec'])
    many = bench(2).with_settings(scheduling_interval=2).run(STRATEGIES['memspec'])
    assert few[0].num_points < many[0].num_points


def test_agreement_is_a_ratio_per_strategy(summary):
    assert set(agreement(summary, summary).values()) == {1.0}


def test_the_papers_oracle_runs_drafts_of_the_pool_and_the_other_all_arms():
    hard = GoalTable.from_matches({name: np.zeros((32, 3), dtype=bool) for name in NAMES},
                                  name='hard', domain='code')
    records = {name: replace(bench(), tables=[hard]).run(STRATEGIES[name])[0]
               for name in ('oracle_dynamic', 'oracle_all')}
    assert records['oracle_dynamic'].num_drafted > 2 * records['oracle_all'].num_drafted
    assert records['oracle_dynamic'].decode_s > records['oracle_all'].decode_s
