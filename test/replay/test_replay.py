# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Replay gives what the loop with models gives, and the clock charges what the profile says."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from memspec_ros.config import RuntimeSettings
from memspec_ros.decoding.generation import Generation
from memspec_ros.decoding.iteration import ModelExecutor
from memspec_ros.decoding.text_stream import TextStream
from memspec_ros.decoding.token_choice import TokenChoice
from memspec_ros.errors import DataError
from memspec_ros.prediction.predictor import Prediction, UniformPredictor
from memspec_ros.records import FinishReason, SamplingOptions
from memspec_ros.replay.goal_table import GoalTable, TableContext
from memspec_ros.replay.profile import AGX_ORIN, ORIN_NANO, PROFILES, DeviceProfile
from memspec_ros.replay.replay import Replay
from memspec_ros.replay.table_executor import TableExecutor
from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.replay.virtual_loader import VirtualLoader
from memspec_ros.runtime.plan import PoolDraft
from memspec_ros.testing.scripted_model import HashedRule, ScriptedDraft, ScriptedTarget

NAMES = ('general', 'code', 'math')
PROFILE = DeviceProfile(name='test', target_s=(0.0, *[0.010] * 16), draft_step_s={'': 0.001},
                        load_s={'': 0.035}, overhead_s=0.0005, catch_up_s=(0.002, 0.0001),
                        prediction_s=0.0003)


def random_table(seed=0, num_tokens=64, steps=4, rates=(0.5, 0.7, 0.6), **fields):
    rng = np.random.default_rng(seed)
    return GoalTable.from_matches({name: rng.random((num_tokens, steps)) < rate
                                   for name, rate in zip(NAMES, rates, strict=True)}, **fields)


def replay(policy='memspec', *, profile=PROFILE, predictor=None, **settings):
    settings = RuntimeSettings(**{'policy': policy, 'draft_length': 3, 'max_draft_length': 4,
                                  'reset_per_goal': True, 'oracle_draft': 'code', **settings})
    return Replay(settings, drafts=[PoolDraft(name=name, domain=name) for name in NAMES],
                  profile=profile, predictor=predictor or UniformPredictor(NAMES))


def traced(num_tokens, steps, *, end_at=None):
    """A scripted target with two drafts, the answer it gives, and its acceptance table."""
    prompt = [3, 1, 4]
    rule = HashedRule(vocab_size=64, seed=5, excluded=frozenset({0}))
    target = ScriptedTarget(vocab_size=64, rule=lambda tokens: 0 if end_at is not None and
                            len(tokens) >= 3 + end_at else rule(tokens))
    drafts = {name: ScriptedDraft(name, rule=target.rule, vocab_size=64, agrees=agrees)
              for name, agrees in (('code', lambda at: at % 5 != 0),
                                   ('math', lambda at: at % 7 < 4))}
    tokens = list(prompt)
    while len(tokens) < 3 + num_tokens and target.rule(tokens) != 0:
        tokens.append(target.rule(tokens))
    matches = {}
    for name, draft in drafts.items():
        matches[name] = np.zeros((len(tokens) - 3, steps), dtype=bool)
        for start in range(3, len(tokens)):
            for step in range(min(steps, len(tokens) - start)):
                at = start + step
                matches[name][start - 3, step] = \
                    draft.proposal_after(tokens[:at]) == tokens[at]
    return target, drafts, prompt, matches


@pytest.mark.parametrize('end_at', [None, 37, 38, 39, 40, 41])
@pytest.mark.parametrize('seed', range(4))
def test_replay_commits_what_the_loop_with_models_commits(seed, end_at):
    """Random switches and draft lengths; every iteration's counts are equal."""
    max_tokens, steps = 60, 6
    target, drafts, prompt, matches = traced(max_tokens, steps, end_at=end_at)
    table = GoalTable.from_matches(matches, max_tokens=max_tokens)
    generation = Generation(target=target, prompt=prompt, max_tokens=max_tokens,
                            text=TextStream(lambda _: b'x', ()))
    target.extend(prompt[:-1], 0)
    clock = VirtualClock()
    real = ModelExecutor(target=target, drafts=drafts, generation=generation, clock=clock,
                         choice=TokenChoice(SamplingOptions(), 0))
    replayed = TableExecutor(TableContext(table), profile=PROFILE, clock=clock,
                             loader=VirtualLoader(PROFILE, clock))
    rng = random.Random(seed)
    finished = None
    while finished is None:
        draft, length = rng.choice(('code', 'math')), rng.randrange(steps + 1)
        expected, got = real.iterate(draft, length), replayed.iterate(draft, length)
        finished = expected.finished
        assert (got.num_committed, got.num_accepted, got.finished) == \
            (expected.num_committed, expected.num_accepted, finished)
        if finished is not FinishReason.STOP:
            assert got.num_drafted >= expected.num_drafted
    assert finished is (FinishReason.LENGTH if end_at is None else FinishReason.STOP)


def test_runs_are_the_leading_true_values():
    table = GoalTable.from_matches({'code': np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1]],
                                                     dtype=bool)})
    assert table.runs['code'] == [2, 0, 4]


def test_tables_of_different_shapes_are_refused():
    with pytest.raises(DataError, match=r'shapes .*\(2, 4\).*\(3, 4\)'):
        GoalTable.from_matches({'code': np.ones((2, 4), bool), 'math': np.ones((3, 4), bool)})


def test_a_draft_length_beyond_the_trace_is_refused():
    with pytest.raises(DataError, match='traced for 4 steps; a draft length of 5'):
        replay(draft_length=5).run([random_table(name='g')])


def test_the_clock_charges_what_the_profile_says():
    """General-Static: no switches, no predictions; all is passes, steps and overhead."""
    run = replay('general_static')
    metrics = run.run_goal(random_table())
    seconds = metrics.num_drafted * 0.001 + metrics.num_iterations * 0.0105
    assert metrics.time.decode_s == pytest.approx(seconds + 0.002 + 0.0001)
    assert metrics.startup_load_wait_s == pytest.approx(0.035)
    assert metrics.num_committed == 64


def test_predictions_cost_time_at_each_point_but_the_first():
    metrics = replay('memspec').run_goal(random_table())
    assert metrics.time.prediction_s == pytest.approx(0.0003 * (metrics.num_points - 1))


def test_predictions_of_the_table_are_looked_up():
    table = random_table()
    switching = [Prediction(scores={'general': 0.0, 'code': 0.5,
                                    'math': float(at >= 20)}) for at in range(65)]
    run = replay('memspec')
    metrics = run.run_goal(GoalTable(**{**vars(table), 'predictions': switching}))
    assert set(metrics.drafts_used) == {'code', 'math'}
    assert metrics.num_switches == 2


def test_memspec_loads_behind_decoding_and_mab_sync_waits():
    memspec, mab_sync = replay('memspec'), replay('mab_sync')
    tables = [random_table(seed) for seed in range(5)]
    assert memspec.run(tables)[0].metrics.time.load_wait_s == 0.0
    assert mab_sync.run(tables)[0].metrics.time.load_wait_s > 0.0


@pytest.mark.parametrize('policy', ['general_static', 'oracle_static', 'mab_sync', 'mab_async',
                                    'bandit_spec', 'prediction_only', 'memspec',
                                    'memspec_online'])
@pytest.mark.parametrize('draft_length', [3, -1])
def test_every_strategy_commits_the_whole_answer_and_its_times_add_up(policy, draft_length):
    run = replay(policy, draft_length=draft_length)
    for seed in range(3):
        before = run.clock()
        metrics = run.run_goal(random_table(seed))
        assert metrics.num_committed == 64
        total_s = metrics.time.decode_s + metrics.startup_load_wait_s \
            + metrics.startup_prediction_s
        assert total_s == pytest.approx(run.clock() - before)


def test_loads_run_one_after_the_other_in_virtual_time():
    clock = VirtualClock()
    loader = VirtualLoader(PROFILE, clock)
    loader.start('code', 0)
    loader.start('math', 1)
    clock.advance(0.034)
    assert loader.poll() == []
    clock.advance(0.002)
    assert [event.draft for event in loader.poll()] == ['code']
    assert loader.wait().draft == 'math'
    assert clock() == pytest.approx(0.070)
    with pytest.raises(Exception, match='no load is in flight'):
        loader.wait()


def test_a_load_that_decoding_waits_for_goes_on_faster():
    clock = VirtualClock()
    loader = VirtualLoader(replace(PROFILE, awaited_load_share=0.5), clock)
    loader.start('code', 0)
    loader.start('math', 1)
    clock.advance(0.015)
    assert loader.wait().draft == 'code'
    assert clock() == pytest.approx(0.025)
    clock.advance(0.034)
    assert loader.poll() == []
    clock.advance(0.002)
    assert [event.draft for event in loader.poll()] == ['math']


def test_a_cancelled_load_makes_place_for_the_next_at_once():
    clock = VirtualClock()
    loader = VirtualLoader(PROFILE, clock)
    loader.start('code', 0)
    loader.start('math', 1)
    clock.advance(0.01)
    loader.cancel('code')
    assert loader.poll()[0].cancelled
    loader.wait()
    assert clock() == pytest.approx(0.045)
    loader.start('code', 0)
    clock.advance(0.05)
    loader.cancel('code')
    assert not loader.poll()[0].cancelled


def test_loading_slows_iterations_where_the_profile_says_so():
    clock = VirtualClock()
    profile = DeviceProfile(**{**vars(PROFILE), 'load_slowdown': 1.5})
    loader = VirtualLoader(profile, clock)
    executor = TableExecutor(TableContext(random_table()), profile=profile, clock=clock,
                             loader=loader)
    plain_s = executor.iterate('', 0).total_s
    loader.start('code', 0)
    assert executor.iterate('', 0).total_s == pytest.approx(1.5 * plain_s)


def test_an_ngram_draft_proposes_what_it_has():
    table = GoalTable.from_matches({'ngram': np.ones((8, 4), bool)},
                                   proposed={'ngram': [0, 2, 0, 0, 4, 4, 4, 4]})
    clock = VirtualClock()
    executor = TableExecutor(TableContext(table), profile=PROFILE, clock=clock,
                             loader=VirtualLoader(PROFILE, clock))
    outcomes = [executor.iterate('ngram', 3) for _ in range(3)]
    assert [outcome.num_drafted for outcome in outcomes] == [0, 2, 3]
    assert [outcome.num_committed for outcome in outcomes] == [1, 3, 4]


def test_the_jetson_profiles_keep_the_papers_ratios():
    nano = ORIN_NANO
    iteration_s = nano.iteration_s('code', 4)
    assert nano.load_of('code') / iteration_s == pytest.approx(2.7)
    assert nano.prediction_s / (4 * iteration_s) == pytest.approx(0.039)
    assert AGX_ORIN.iteration_s('code', 4) < 0.55 * iteration_s
    assert set(PROFILES) == {'orin_nano', 'agx_orin'}


def test_a_profile_survives_its_file(tmp_path):
    path = tmp_path / 'profile.json'
    PROFILE.save(path)
    assert DeviceProfile.load(path) == PROFILE
    path.write_text('{"name": "x"}')
    with pytest.raises(DataError, match=r'profile\.json cannot be read'):
        DeviceProfile.load(path)
