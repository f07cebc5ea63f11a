# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Progress joined to feedback."""

import pytest

from memspec_ros.node.feedback_batch import FeedbackBatch
from memspec_ros.records import GoalState, Progress


@pytest.fixture
def sent():
    return []


@pytest.fixture
def batch(sent, clock):
    return FeedbackBatch(send=sent.append, rate_hz=20.0, clock=clock)


def decoded(text, tokens):
    return Progress(state=GoalState.DECODE, delta_text=text, completion_tokens=tokens)


def test_a_change_of_state_is_sent_at_once(batch, sent):
    batch.add(Progress(state=GoalState.PREFILL))
    batch.add(decoded('a', 1))
    assert [progress.state for progress in sent] == [GoalState.PREFILL, GoalState.DECODE]


def test_text_is_joined_until_the_period_is_over(batch, sent, clock):
    batch.add(decoded('a', 1))
    batch.add(decoded('b', 2))
    clock.now_s += 0.049
    batch.add(decoded('c', 3))
    assert [progress.delta_text for progress in sent] == ['a']
    clock.now_s += 0.002
    batch.add(decoded('d', 4))
    assert [(progress.delta_text, progress.completion_tokens) for progress in sent] == [
        ('a', 1), ('bcd', 4)]


def test_flush_sends_the_rest_once(batch, sent):
    batch.add(decoded('a', 1))
    batch.add(decoded('b', 2))
    batch.flush()
    batch.flush()
    assert [progress.delta_text for progress in sent] == ['a', 'b']
    assert batch.text == 'ab'


def test_nothing_to_flush(batch, sent):
    batch.flush()
    assert sent == []
