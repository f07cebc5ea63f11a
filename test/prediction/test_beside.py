# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Predicting on a thread of its own, held at known places by events."""

from __future__ import annotations

import threading

import pytest

from memspec_ros.errors import DataError
from memspec_ros.prediction.beside import PredictorBeside
from memspec_ros.prediction.predictor import Prediction
from memspec_ros.testing.scripted_model import ScriptedContext

LIMIT_S = 10.0


class GatedPredictor:
    """Answers with the number of tokens; waits for the gate where it is shut."""

    def __init__(self):
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.failure = None
        self.held = None
        self.next_gate = None

    def predict(self, context, recent_tokens):
        self.entered.release()
        assert self.gate.wait(LIMIT_S)
        if self.held is not None and len(context.tokens) == len(self.held):
            assert self.next_gate.wait(LIMIT_S)
        if self.failure:
            raise self.failure
        return Prediction(scores={'code': float(len(context.tokens)), 'T': recent_tokens})


@pytest.fixture
def gated():
    return GatedPredictor()


@pytest.fixture
def beside(gated):
    predictor = PredictorBeside(gated)
    yield predictor
    gated.gate.set()
    assert predictor.close(LIMIT_S)


def goal(num_tokens=3):
    return ScriptedContext(tokens=[1] * num_tokens, prompt_length=num_tokens, target=None)


def test_the_first_prediction_of_a_goal_is_awaited(beside):
    assert beside.predict(goal(), 64).scores == {'code': 3.0, 'T': 64}


def test_later_ones_are_those_of_a_point_before(beside, gated):
    context = goal()
    beside.predict(context, 64)
    assert gated.entered.acquire(timeout=LIMIT_S)
    gated.gate.clear()
    context.tokens += [2, 2]
    assert beside.predict(context, 64).scores['code'] == 3.0
    assert gated.entered.acquire(timeout=LIMIT_S)
    context.tokens += [2, 2]
    assert beside.predict(context, 64).scores['code'] == 3.0
    gated.gate.set()
    assert gated.entered.acquire(timeout=LIMIT_S)


def test_a_late_answer_for_another_goal_is_dropped(beside, gated):
    first, second = goal(), goal(7)
    beside.predict(first, 64)
    assert gated.entered.acquire(timeout=LIMIT_S)
    gated.gate.clear()
    beside.predict(first, 64)
    assert gated.entered.acquire(timeout=LIMIT_S)

    after_the_late_one = []

    def answer_late_then_in_time():
        with beside._changed:
            assert beside._changed.wait_for(lambda: beside._goal == 2, LIMIT_S)
        gated.gate.set()
        assert gated.entered.acquire(timeout=LIMIT_S)
        with beside._changed:
            after_the_late_one.append(beside._answer)
        gated.next_gate.set()

    gated.next_gate, gated.held = threading.Event(), second.tokens
    helper = threading.Thread(target=answer_late_then_in_time)
    helper.start()
    assert beside.predict(second, 64).scores['code'] == 7.0
    helper.join(LIMIT_S)
    assert after_the_late_one == [None]


def test_what_the_predictor_raises_reaches_who_asked(beside, gated):
    gated.failure = DataError('head is damaged')
    with pytest.raises(DataError, match='head is damaged'):
        beside.predict(goal(), 64)
    gated.failure = None
    assert beside.predict(goal(), 64).scores['code'] == 3.0


def test_the_target_is_out_of_reach(beside, gated):
    gated.predict = lambda context, _: context.target
    with pytest.raises(DataError, match='cannot read the target'):
        beside.predict(goal(), 64)
