# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the node adds to a runtime's result."""

import types

import pytest

from memspec_ros.errors import ErrorCode, RequestError
from memspec_ros.node import goal_result
from memspec_ros.node.client_watch import ClientTrace
from memspec_ros.node.goal import CANCELED, CLIENT_LOST, SHUTTING_DOWN, Goal
from memspec_ros.records import Durations, FinishReason, Result


@pytest.fixture
def goal():
    handle = types.SimpleNamespace(goal_id=types.SimpleNamespace(uuid=bytes(range(16))))
    goal = Goal(handle=handle, number=1, client=ClientTrace(prefixes=frozenset(), present_s=0.0))
    goal.prepared = types.SimpleNamespace(prompt_tokens=3)
    goal.accepted_s -= 2.0
    goal.started_s = goal.accepted_s + 1.5
    goal.waited_s = 1.5
    return goal


def test_durations_begin_with_the_acceptance(goal):
    result = goal_result.completed(goal, Result(
        finish_reason=FinishReason.STOP,
        durations=Durations(prefill_s=0.125, first_token_s=0.25, decode_s=0.125, total_s=0.5)))
    assert result.durations.queue_s == pytest.approx(1.5)
    assert result.durations.first_token_s == pytest.approx(1.75)
    assert result.durations.total_s >= 2.0
    assert (result.durations.prefill_s, result.durations.decode_s) == (0.125, 0.125)
    assert result.error_code is ErrorCode.NONE


@pytest.mark.parametrize('order', [CANCELED, CLIENT_LOST, SHUTTING_DOWN])
def test_an_order_that_ended_the_goal_says_so(goal, order):
    goal.ended_by = order
    # The real runtime says of each goal that is told to stop that it was canceled.
    for code, message in ((ErrorCode.NONE, ''), (ErrorCode.CANCELED, 'canceled after 7 tokens')):
        result = goal_result.completed(goal, Result(
            finish_reason=order.reason, error_code=code, error_msg=message, completion_tokens=7))
        assert (result.error_code, result.error_msg) == (
            order.code, f'{order.message} (7 tokens were generated)')


def test_an_order_that_came_too_late_says_nothing(goal):
    goal.ended_by = CANCELED
    result = goal_result.completed(goal, Result(finish_reason=FinishReason.STOP))
    assert (result.error_code, result.error_msg) == (ErrorCode.NONE, '')


def test_an_error_of_the_runtime_stays(goal):
    goal.ended_by = SHUTTING_DOWN
    result = goal_result.completed(goal, Result(
        finish_reason=FinishReason.ERROR, error_code=ErrorCode.OUT_OF_MEMORY, error_msg='no more'))
    assert (result.error_code, result.error_msg) == (ErrorCode.OUT_OF_MEMORY, 'no more')


def test_a_full_context_is_no_error_where_the_goal_set_no_limit(goal):
    result = goal_result.completed(goal, Result(
        finish_reason=FinishReason.CONTEXT, prompt_tokens=40, completion_tokens=24))
    assert (result.error_code, result.error_msg) == (ErrorCode.NONE, '')


def test_refused(goal):
    result = goal_result.refused(goal, RequestError(ErrorCode.QUEUE_FULL, 'full'))
    assert (result.finish_reason, result.error_code, result.error_msg) == (
        FinishReason.ERROR, ErrorCode.QUEUE_FULL, 'full')


class OutOfMemoryError(RuntimeError):
    """As torch has it: no MemoryError."""


@pytest.mark.parametrize(('error', 'code'), [
    (MemoryError('a'), ErrorCode.OUT_OF_MEMORY), (OutOfMemoryError('a'), ErrorCode.OUT_OF_MEMORY),
    (KeyError('a'), ErrorCode.INTERNAL)])
def test_crashed(goal, error, code):
    result = goal_result.crashed(goal, 'so far', error)
    assert (result.error_code, result.text) == (code, 'so far')
    assert result.error_msg == f'{type(error).__name__}: {error}'


def test_summary(goal):
    goal.num_interruptions = 2
    line = goal_result.summary(goal, Result(
        finish_reason=FinishReason.TIMEOUT, error_code=ErrorCode.TIMEOUT, error_msg='over',
        prompt_tokens=3, completion_tokens=4, reused_tokens=2))
    assert line.startswith(f'goal {bytes(range(16)).hex()} (number 1, priority 0) TIMEOUT: '
                           '3 + 4 tokens in 0.00 s')
    assert line.endswith('2 reused, 0 of 0 drafted accepted, interrupted 2 times; TIMEOUT: over')


def test_a_goal_that_ended_while_interrupted_keeps_its_text_and_times(goal):
    said = {}

    def end(reason, code, message):
        said.update(reason=reason, code=code, message=message)
        return Result(text='so far', finish_reason=reason, error_code=code, error_msg=message,
                      durations=Durations(decode_s=0.25, first_token_s=0.125))

    goal.interrupt(types.SimpleNamespace(end=end))
    result = goal_result.stopped_in_queue(goal, CANCELED)
    assert (result.text, result.finish_reason) == ('so far', FinishReason.CANCELED)
    assert said['message'] == 'canceled by a client (while a goal of higher priority was served)'
    assert result.durations.first_token_s == pytest.approx(1.625)
    assert 1.5 <= result.durations.queue_s < result.durations.total_s
