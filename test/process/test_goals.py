# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Goals over real DDS, sent with rclpy's own client."""

import queue

import pytest
from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from builtin_interfaces.msg import Duration

from memspec_ros.action import Generate
from memspec_ros.errors import ErrorCode
from memspec_ros.msg import ChatMessage, SamplingOptions
from memspec_ros.node.conversions import result_from_message
from memspec_ros.records import FinishReason, GoalState

NODE_OPTIONS = ('--iteration-s', 0.01, '--prefill-s', 0.01)
ROS_ARGS = ('-p', 'server.queue_capacity:=2', '-p', 'target.context_tokens:=100000')
ENDLESS = 50000


class SentGoal:
    """A goal, its feedback and its result."""

    def __init__(self, peer, client, **fields):
        self.peer = peer
        self.feedback = []
        self._news = queue.SimpleQueue()
        self.handle = peer.send_raw(client, Generate.Goal(**fields), self._on_feedback)

    def _on_feedback(self, message):
        self.feedback.append(message.feedback)
        self._news.put(message.feedback)

    def wait_for(self, state, tokens=0):
        """Wait for feedback of this state, and so many tokens."""
        while True:
            feedback = self._news.get(timeout=30)
            if feedback.state == state and feedback.completion_tokens >= tokens:
                return feedback

    def deltas(self, text):
        """Join the feedback's text, waiting until it is as long; the result may overtake it."""
        while len(joined := ''.join(one.delta_text for one in self.feedback)) < len(text):
            self._news.get(timeout=30)
        return joined

    def cancel(self):
        return self.peer.future(self.handle.cancel_goal_async)

    def result(self):
        """Return status and result."""
        response = self.peer.result(self.handle)
        return response.status, response.result


@pytest.fixture
def client(served):
    with served.raw_client() as client:
        yield client


@pytest.fixture
def send(served, client):
    """Send goals, and end those that a test leaves."""
    sent = []

    def send_goal(**fields):
        sent.append(SentGoal(served, client, **fields))
        return sent[-1]

    yield send_goal
    for goal in sent:
        goal.cancel()
        goal.result()


def test_a_goal_succeeds_and_its_deltas_join_to_its_text(send):
    goal = send(prompt='one two', max_tokens=60)
    status, result = goal.result()
    assert status == GoalStatus.STATUS_SUCCEEDED
    assert result.text == ''.join(f'w{number} ' for number in range(60))
    assert (result.error_code, result.error_msg) == (ErrorCode.NONE, '')
    assert result.finish_reason == FinishReason.LENGTH
    assert (result.prompt_tokens, result.completion_tokens) == (2, 60)
    assert (result.iterations, result.drafted, result.accepted) == (30, 30, 15)
    assert result.drafts_used == ['alpha']
    assert 0 < result.prefill_s < result.first_token_s < result.total_s
    assert result.tokens_per_second == result_from_message(result).tokens_per_second > 0
    assert goal.deltas(result.text) == result.text
    assert [feedback.seq for feedback in goal.feedback] == list(range(len(goal.feedback)))
    states = [feedback.state for feedback in goal.feedback]
    assert states == sorted(states)
    assert set(states) == {GoalState.QUEUED, GoalState.PREFILL, GoalState.DECODE}


def test_feedback_is_batched(send):
    goal = send(prompt='one', max_tokens=200)
    _, result = goal.result()
    decoding = [one for one in goal.feedback if one.state == GoalState.DECODE]
    # 100 iterations of 10 ms at least, at 20 Hz; the first and the last come out of turn.
    assert len(decoding) <= 20 * (result.decode_s + 0.1) + 2
    assert len(decoding) >= 3


NOT_A_NUMBER = float('nan')
REFUSED = {
    'empty': ({}, ErrorCode.INVALID_GOAL, 'the goal is empty'),
    'both': ({'prompt': 'a', 'messages': [ChatMessage(role='user', content='b')]},
             ErrorCode.INVALID_GOAL, 'both a prompt (1 characters) and 1 messages'),
    'role': ({'messages': [ChatMessage(role='robot', content='b')]}, ErrorCode.INVALID_GOAL,
             "message role is 'robot'; it must be one of system, user"),
    'nan': ({'prompt': 'a', 'sampling': SamplingOptions(temperature=NOT_A_NUMBER)},
            ErrorCode.INVALID_GOAL, 'temperature is nan; it must be a number in [0.0, 100.0]'),
    'negative': ({'prompt': 'a', 'sampling': SamplingOptions(temperature=-1.0)},
                 ErrorCode.INVALID_GOAL, 'temperature is -1.0'),
    'stop': ({'prompt': 'a', 'stop': ['x', '']}, ErrorCode.INVALID_GOAL,
             'stop string 1 of 2 is empty'),
    'timeout': ({'prompt': 'a', 'timeout': Duration(sec=-3)}, ErrorCode.INVALID_GOAL,
                'timeout_s is -3.0'),
    'tokens': ({'prompt': 'a b', 'max_tokens': 1_000_000}, ErrorCode.CONTEXT_EXCEEDED,
               'prompt of 2 tokens and max_tokens 1000000 exceed the context of 100000'),
    'hint': ({'prompt': 'a', 'draft_hint': 'omega'}, ErrorCode.UNKNOWN_DRAFT,
             "draft_hint is 'omega'; it must be one of alpha, beta"),
    'schema': ({'prompt': 'a', 'response_schema': '{}'}, ErrorCode.UNSUPPORTED,
               'response_schema is not supported'),
}


@pytest.mark.parametrize('case', REFUSED)
def test_a_bad_goal_ends_with_the_reason(send, case):
    fields, code, message = REFUSED[case]
    status, result = send(**fields).result()
    assert status == GoalStatus.STATUS_ABORTED
    assert (result.error_code, result.finish_reason) == (code, FinishReason.ERROR)
    assert message in result.error_msg


def test_the_node_serves_after_refusals(send):
    send().result()
    assert send(prompt='one', max_tokens=2).result()[0] == GoalStatus.STATUS_SUCCEEDED


def test_an_exception_while_decoding_is_told_with_the_text_so_far(send, served):
    status, result = send(prompt='raise the roof', max_tokens=20).result()
    assert status == GoalStatus.STATUS_ABORTED
    assert result.error_code == ErrorCode.INTERNAL
    assert result.error_msg == 'RuntimeError: raise the roof'
    assert result.text == 'w0 w1 w2 w3 w4 w5 '
    assert 'raise RuntimeError(prepared.request.prompt)' in served.process.output
    assert send(prompt='one', max_tokens=2).result()[0] == GoalStatus.STATUS_SUCCEEDED


def test_cancel_in_the_queue(send):
    first = send(prompt='one', max_tokens=ENDLESS)
    first.wait_for(GoalState.DECODE)
    second = send(prompt='two', max_tokens=5)
    assert second.wait_for(GoalState.QUEUED).queue_position == 1
    assert second.cancel().return_code == CancelGoal.Response.ERROR_NONE
    status, result = second.result()
    assert status == GoalStatus.STATUS_CANCELED
    assert (result.finish_reason, result.error_code) == (FinishReason.CANCELED, ErrorCode.CANCELED)
    assert 'canceled by a client (it waited' in result.error_msg
    assert (result.text, result.completion_tokens, result.prompt_tokens) == ('', 0, 1)


def test_cancel_in_prefill(send):
    goal = send(prompt='word ' * 3000, max_tokens=5)
    goal.wait_for(GoalState.PREFILL)
    goal.cancel()
    status, result = goal.result()
    assert status == GoalStatus.STATUS_CANCELED
    assert (result.text, result.error_code) == ('', ErrorCode.CANCELED)
    assert '0 tokens were generated' in result.error_msg


def test_cancel_in_decode_keeps_the_text_so_far(send):
    goal = send(prompt='one', max_tokens=ENDLESS)
    goal.wait_for(GoalState.DECODE, tokens=10)
    goal.cancel()
    status, result = goal.result()
    assert status == GoalStatus.STATUS_CANCELED
    assert result.completion_tokens >= 10
    assert result.text.startswith('w0 w1 w2')
    assert goal.deltas(result.text) == result.text


def test_a_second_cancel_and_one_of_an_ended_goal_are_refused(send):
    goal = send(prompt='one', max_tokens=2)
    assert goal.result()[0] == GoalStatus.STATUS_SUCCEEDED
    assert goal.cancel().return_code == CancelGoal.Response.ERROR_GOAL_TERMINATED
    assert goal.result()[0] == GoalStatus.STATUS_SUCCEEDED


def test_timeout_in_the_queue(send):
    first = send(prompt='one', max_tokens=ENDLESS)
    first.wait_for(GoalState.DECODE)
    status, result = send(prompt='two', timeout=Duration(nanosec=300_000_000)).result()
    assert status == GoalStatus.STATUS_ABORTED
    assert (result.finish_reason, result.error_code) == (FinishReason.TIMEOUT, ErrorCode.TIMEOUT)
    assert 'the timeout of 0.3 s passed in the queue' in result.error_msg
    assert result.queue_s >= 0.3


@pytest.mark.parametrize(('prompt', 'text'), [('word ' * 3000, ''), ('one', 'w0 w1 w2')])
def test_timeout_while_generating(send, prompt, text):
    goal = send(prompt=prompt, max_tokens=ENDLESS, timeout=Duration(nanosec=300_000_000))
    status, result = goal.result()
    assert status == GoalStatus.STATUS_ABORTED
    assert (result.finish_reason, result.error_code) == (FinishReason.TIMEOUT, ErrorCode.TIMEOUT)
    assert 'the timeout of 0.3 s passed while generating' in result.error_msg
    assert result.text.startswith(text)
    assert bool(result.text) == bool(text)


def test_a_full_queue_refuses_and_frees(send):
    running = send(prompt='one', max_tokens=ENDLESS)
    running.wait_for(GoalState.DECODE)
    waiting = [send(prompt='two', max_tokens=2) for _ in range(2)]
    status, result = send(prompt='three').result()
    assert status == GoalStatus.STATUS_ABORTED
    assert result.error_code == ErrorCode.QUEUE_FULL
    assert '2 goals wait already, and server.queue_capacity is 2' in result.error_msg
    running.cancel()
    assert [goal.result()[0] for goal in waiting] == [GoalStatus.STATUS_SUCCEEDED] * 2


def test_priority_before_arrival(send):
    running = send(prompt='one', max_tokens=ENDLESS)
    running.wait_for(GoalState.DECODE)
    low = send(prompt='low', max_tokens=2)
    assert low.wait_for(GoalState.QUEUED).queue_position == 1
    high = send(prompt='high', max_tokens=2, priority=5)
    assert high.wait_for(GoalState.QUEUED).queue_position == 1
    assert low.wait_for(GoalState.QUEUED).queue_position == 2
    running.cancel()
    _, first = high.result()
    _, second = low.result()
    assert first.queue_s < second.queue_s
    assert second.total_s > first.total_s


def test_a_goal_of_higher_priority_interrupts_and_the_other_goes_on(send, served):
    assert served.set_parameters(server__preemption=True).successful
    low = send(prompt='low', max_tokens=600)
    low.wait_for(GoalState.DECODE, tokens=10)
    high = send(prompt='high', max_tokens=4, priority=1)
    assert low.wait_for(GoalState.QUEUED, tokens=10).queue_position == 1
    assert high.result()[1].text == 'w0 w1 w2 w3 '
    status, result = low.result()
    assert status == GoalStatus.STATUS_SUCCEEDED
    assert result.text == ''.join(f'w{number} ' for number in range(600))
    assert low.deltas(result.text) == result.text
    assert [feedback.seq for feedback in low.feedback] == list(range(len(low.feedback)))
    assert ', interrupted 1 times' in served.process.wait_for(
        f'goal {bytes(low.handle.goal_id.uuid).hex()} (number')
    assert served.set_parameters(server__preemption=False).successful
