# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Tables traced by the drafts' own code, and their file."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from memspec_ros.decoding.generation import Generation
from memspec_ros.decoding.iteration import ModelExecutor
from memspec_ros.decoding.text_stream import TextStream
from memspec_ros.decoding.token_choice import TokenChoice
from memspec_ros.errors import DataError
from memspec_ros.prediction.predictor import Prediction
from memspec_ros.records import SamplingOptions
from memspec_ros.replay.goal_table import TableContext
from memspec_ros.replay.profile import ORIN_NANO
from memspec_ros.replay.table_executor import TableExecutor
from memspec_ros.replay.table_file import load_goals, save_goals
from memspec_ros.replay.tracer import trace_goal
from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.replay.virtual_loader import VirtualLoader
from memspec_ros.testing.fixed_predictor import FixedPredictor
from memspec_ros.testing.scripted_model import HashedRule, ScriptedDraft, ScriptedTarget

PROMPT = [3, 1, 4]
MAX_TOKENS = 50


@pytest.fixture
def models():
    """A target that ends its answer after 45 tokens, and two drafts."""
    rule = HashedRule(vocab_size=64, seed=5, excluded=frozenset({0}))
    target = ScriptedTarget(rule=lambda tokens: 0 if len(tokens) >= 48 else rule(tokens))
    return target, {name: ScriptedDraft(name, rule=target.rule, agrees=agrees)
                    for name, agrees in (('code', lambda at: at % 5 != 0),
                                         ('math', lambda at: at % 7 < 4))}


def decode(target, drafts, choose):
    """Decode by random drafts; return the tokens and every iteration's outcome."""
    generation = Generation(target=target, prompt=PROMPT, max_tokens=MAX_TOKENS,
                            text=TextStream(lambda _: b'x', ()))
    target.rollback(0)
    target.extend(PROMPT[:-1], 0)
    executor = ModelExecutor(target=target, drafts=drafts, generation=generation,
                             clock=VirtualClock(), choice=TokenChoice(SamplingOptions(), 0))
    outcomes = []
    while not outcomes or outcomes[-1].finished is None:
        outcomes.append(executor.iterate(*choose()))
    return generation.tokens, outcomes


def test_a_traced_table_replays_the_real_loop_to_the_last_count(models):
    target, drafts = models
    tokens, _ = decode(target, drafts, lambda: ('code', 0))
    table = trace_goal(tokens, len(PROMPT), target=target, drafts=drafts, max_draft_length=6,
                       max_tokens=MAX_TOKENS)
    assert table.num_tokens == 45
    first, second = random.Random(1), random.Random(1)
    _, outcomes = decode(target, drafts, lambda: (first.choice(('code', 'math')),
                                                  first.randrange(7)))
    clock = VirtualClock()
    replayed = TableExecutor(TableContext(table), profile=ORIN_NANO, clock=clock,
                             loader=VirtualLoader(ORIN_NANO, clock))
    for expected in outcomes:
        got = replayed.iterate(second.choice(('code', 'math')), second.randrange(7))
        assert (got.num_committed, got.num_accepted, got.finished) == \
            (expected.num_committed, expected.num_accepted, expected.finished)
        assert expected.finished or got.num_drafted == expected.num_drafted


def test_the_predictor_is_asked_at_every_position(models):
    target, drafts = models
    tokens, _ = decode(target, drafts, lambda: ('code', 3))
    predictor = FixedPredictor(lambda num_output: {'code': float(num_output)})
    table = trace_goal(tokens, 3, target=target, drafts={}, predictor=predictor,
                       max_draft_length=3, max_tokens=MAX_TOKENS)
    assert [prediction.scores['code'] for prediction in table.predictions] == \
        list(range(46))


@pytest.fixture
def tables(models):
    target, drafts = models
    tokens, _ = decode(target, drafts, lambda: ('code', 3))
    table = trace_goal(tokens, 3, target=target, drafts=drafts, max_draft_length=6,
                       max_tokens=MAX_TOKENS, name='a', domain='code',
                       predictor=FixedPredictor({'code': 0.75, 'math': 0.25},
                                                rates={'code': 0.5, 'math': 0.125}))
    short = trace_goal(tokens[:20], 3, target=target, drafts=drafts, max_draft_length=6,
                       max_tokens=17, name='b', domain='math',
                       predictor=FixedPredictor({'code': 0.25, 'math': 0.75},
                                                rates={'code': 0.25, 'math': 0.5}))
    return [table, short]


def test_tables_survive_their_file(tables, tmp_path):
    save_goals(tmp_path / 'goals', tables)
    assert load_goals(tmp_path / 'goals') == tables
    bare = [replace(table, predictions=[]) for table in tables]
    save_goals(tmp_path / 'goals', bare)
    assert load_goals(tmp_path / 'goals') == bare
    ranked = [replace(table, predictions=[Prediction(scores=prediction.scores)
                                          for prediction in table.predictions])
              for table in tables]
    save_goals(tmp_path / 'goals', ranked)
    assert load_goals(tmp_path / 'goals') == ranked


def test_files_that_are_none_are_named(tables, tmp_path):
    path = tmp_path / 'goals'
    with pytest.raises(DataError, match='goals cannot be read'):
        load_goals(path)
    save_goals(path, tables)
    path.write_bytes(path.read_bytes()[:99])
    with pytest.raises(DataError, match='goals cannot be read'):
        load_goals(path)
    with pytest.raises(DataError, match='of the same drafts are needed'):
        save_goals(path, [])
    with pytest.raises(DataError, match='of the same drafts are needed'):
        save_goals(path, [tables[0], replace(tables[1], runs={})])
