# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Tables traced by the drafts' own code, and predictions over them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from memspec_ros.decoding.generation import Generation
from memspec_ros.decoding.iteration import ModelExecutor
from memspec_ros.decoding.text_stream import TextStream
from memspec_ros.decoding.token_choice import TokenChoice
from memspec_ros.errors import DataError
from memspec_ros.prediction.ranking_head import RankingHead
from memspec_ros.prediction.target_state import TargetStateRanker
from memspec_ros.records import FinishReason, SamplingOptions
from memspec_ros.replay.acceptance_table import AcceptanceTable, TracedDraft
from memspec_ros.replay.goal_table import TableContext
from memspec_ros.replay.predicted import TracedContext, predicted_tables
from memspec_ros.replay.profile import ORIN_NANO
from memspec_ros.replay.table_executor import TableExecutor
from memspec_ros.replay.tracer import trace_goal
from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.replay.virtual_loader import VirtualLoader
from memspec_ros.testing.fixed_predictor import FixedPredictor
from memspec_ros.testing.scripted_model import (
    HashedRule,
    ScriptedContext,
    ScriptedDraft,
    ScriptedTarget,
)

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
    """Decode by what ``choose`` says; return the tokens and every iteration's outcome."""
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


@pytest.fixture
def table(models):
    target, drafts = models
    tokens, outcomes = decode(target, drafts, lambda: ('code', 0))
    goal = trace_goal(tokens, len(PROMPT), target=target, drafts=drafts, max_draft_length=6,
                      ended=outcomes[-1].finished is FinishReason.STOP, id='a', domain='code')
    return AcceptanceTable(goals=(goal,), steps=6, max_tokens=MAX_TOKENS, target='',
                           drafts={name: TracedDraft(domain=name) for name in drafts})


def test_a_traced_table_replays_the_real_loop_to_the_last_count(models, table):
    assert len(table.goals[0].output_ids) == 45
    first, second = random.Random(1), random.Random(1)
    _, outcomes = decode(*models, lambda: (first.choice(('code', 'math')), first.randrange(7)))
    clock = VirtualClock()
    replayed = TableExecutor(TableContext(table.goal_tables()[0]), profile=ORIN_NANO,
                             clock=clock, loader=VirtualLoader(ORIN_NANO, clock))
    for expected in outcomes:
        got = replayed.iterate(second.choice(('code', 'math')), second.randrange(7))
        assert (got.num_committed, got.num_accepted, got.finished) == \
            (expected.num_committed, expected.num_accepted, expected.finished)
        assert expected.finished or got.num_drafted == expected.num_drafted


def test_the_predictor_is_asked_after_every_number_of_output_tokens(table):
    predictor = FixedPredictor(lambda num_output: {'code': float(num_output)})
    predicted, = predicted_tables(table, predictor, 64)
    assert [prediction.scores['code'] for prediction in predicted.predictions] == \
        list(range(46))
    assert predicted.runs == table.goal_tables()[0].runs


def test_predictions_from_the_trace_are_those_of_the_running_target(models, table):
    """The same head says the same over kept states (fp16) and over the target's own."""
    rng = np.random.default_rng(0)
    head = RankingHead(drafts=('code', 'math'), mean=np.zeros(24, np.float32),
                       scale=np.ones(24, np.float32), bias_1=np.zeros(4, np.float32),
                       bias_2=np.zeros(4, np.float32),
                       weight_1=rng.normal(size=(24, 4)).astype(np.float32),
                       weight_2=rng.normal(size=(4, 4)).astype(np.float32))
    target, goal = models[0], table.goals[0]
    predicted, = predicted_tables(table, TargetStateRanker(head), 8)
    tokens = [*goal.prompt_ids, *goal.output_ids]
    for num_output in (0, 1, 7, 30, 45):
        running = ScriptedContext(tokens=tokens[:3 + num_output], prompt_length=3,
                                  target=target)
        expected = TargetStateRanker(head).predict(running, 8)
        assert predicted.predictions[num_output].scores == pytest.approx(expected.scores,
                                                                         rel=0.01)


def test_a_trace_runs_no_target(table):
    with pytest.raises(DataError, match='no target to run 2 tokens'):
        TracedContext(table.goals[0]).target.extend([1, 2], 1)
