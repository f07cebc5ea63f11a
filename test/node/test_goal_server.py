# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Goals through the server, with the turns of the two threads chosen by the test."""

import types

import pytest

from memspec_ros.action import Generate
from memspec_ros.config import ServerSettings, Settings
from memspec_ros.errors import ErrorCode
from memspec_ros.node import goal_server
from memspec_ros.node.goal import CANCELED, CLIENT_LOST, SHUTTING_DOWN
from memspec_ros.node.goal_server import GoalServer
from memspec_ros.records import FinishReason, GoalState
from memspec_ros.testing.fake_runtime import FakeRuntime, FakeScript

CLIENT = b'\x01' * 12


class StubActionServer:
    """Notes which goals were begun and ended."""

    def __init__(self, _node, _name, **_callbacks):
        self.begun, self.ended = [], []

    def begin(self, handle):
        self.begun.append(handle.number)

    def end(self, handle, reason, result):
        self.ended.append((handle.number, reason, result))


class Handle:
    def __init__(self, number, **fields):
        self.number = number
        self.goal_id = types.SimpleNamespace(uuid=bytes([number] * 16))
        self.request = Generate.Goal(**fields)
        self.feedback = []

    def publish_feedback(self, message):
        self.feedback.append(message)


class Bench:
    """A goal server whose decode thread runs in the test: :meth:`serve` serves one goal."""

    def __init__(self, node, outbox, **settings):
        self.outbox = outbox
        self.settings = ServerSettings(**settings)
        self.num_progress = 0
        self.goals = GoalServer(node, outbox, settings=lambda: self.settings,
                                queue_capacity=self.settings.queue_capacity,
                                on_change=lambda: None, on_progress=self._count)
        self.script = FakeScript()
        self.runtime = FakeRuntime(self.script, Settings())
        self.goals.use(self.runtime)
        self.goals.refusal = None
        self.action = self.goals._action_server

    def _count(self):
        self.num_progress += 1

    def send(self, number, **fields):
        handle = Handle(number, **{'prompt': 'one two', 'max_tokens': 4, **fields})
        self.goals.accept(handle, self.goals._clients.trace(CLIENT))
        return handle

    def serve(self):
        """Do what the decode thread does with the next goal."""
        self.goals.serve(self.goals.decode_thread._queue.pop())

    @property
    def ended(self):
        return [(number, reason.name) for number, reason, _ in self.action.ended]


@pytest.fixture
def bench(node, outbox, monkeypatch):
    monkeypatch.setattr(goal_server, 'QueuedActionServer', StubActionServer)
    node.subscribers = [CLIENT]
    return Bench(node, outbox, queue_capacity=2)


def test_from_queue_to_result(bench):
    handle = bench.send(1)
    assert [(message.state, message.seq) for message in handle.feedback] == [(1, 0)]
    bench.serve()
    assert bench.ended == []
    bench.outbox.run()
    assert bench.ended == [(1, 'LENGTH')]
    assert bench.action.begun == [1]
    assert [message.state for message in handle.feedback] == [
        GoalState.QUEUED, GoalState.PREFILL, GoalState.DECODE, GoalState.DECODE]
    assert ''.join(message.delta_text for message in handle.feedback) == 'w0 w1 w2 w3 '
    assert bench.action.ended[0][2].text == 'w0 w1 w2 w3 '
    assert [message.seq for message in handle.feedback] == [0, 1, 2, 3]
    assert bench.num_progress == 3
    assert (bench.goals.num_ended, bench.goals.num_failed) == (1, 0)


def test_success_then_cancel_ends_once(bench):
    handle = bench.send(1)
    bench.serve()
    assert bench.goals.cancel(handle)
    bench.outbox.run()
    assert bench.ended == [(1, 'LENGTH')]
    assert not bench.goals.cancel(handle)


def test_cancel_then_success_ends_once(bench):
    handle = bench.send(1)
    bench.script.before_iteration = lambda number: number or bench.goals.cancel(handle)
    bench.serve()
    bench.outbox.run()
    # The cancel was posted before the result; the decode thread had ended by then.
    assert bench.ended == [(1, 'LENGTH')]


def test_a_cancel_that_is_heard_ends_the_goal_at_the_next_iteration(bench):
    handle = bench.send(1, max_tokens=1000)

    def cancel_in_third(number):
        if number == 2:
            bench.goals.cancel(handle)
            bench.outbox.run()

    bench.script.before_iteration = cancel_in_third
    bench.serve()
    bench.outbox.run()
    number, reason, result = bench.action.ended[0]
    assert (number, reason, len(bench.ended)) == (1, FinishReason.CANCELED, 1)
    assert (result.error_code, result.text) == (ErrorCode.CANCELED, 'w0 w1 w2 w3 w4 w5 ')
    assert result.error_msg == 'canceled by a client (6 tokens were generated)'


def test_cancel_in_the_queue_is_done_after_the_callback(bench):
    bench.send(1)
    handle = bench.send(2)
    assert bench.goals.cancel(handle)
    # rclpy brings the goal to CANCELING after the callback has returned.
    assert bench.ended == []
    bench.outbox.run()
    assert bench.ended == [(2, 'CANCELED')]
    assert bench.goals.decode_thread.num_waiting == 1


def test_an_abandoned_goal_does_not_end_again(bench):
    bench.send(1)
    bench.script.before_iteration = lambda number: (
        number == 1 and (bench.outbox.run(), bench.goals.abandon_all(SHUTTING_DOWN)))
    bench.serve()
    bench.outbox.run()
    assert bench.ended == [(1, 'ERROR')]
    result = bench.action.ended[0][2]
    assert (result.error_code, result.text) == (ErrorCode.SHUTTING_DOWN, 'w0 w1 ')


def test_stop_all_ends_what_waits_and_what_runs(bench):
    first, _ = bench.send(1, max_tokens=1000), bench.send(2)
    bench.script.before_iteration = lambda number: (
        number == 1 and bench.goals.stop_all(SHUTTING_DOWN))
    bench.serve()
    bench.outbox.run()
    assert bench.ended == [(2, 'ERROR'), (1, 'ERROR')]
    messages = [result.error_msg for _, _, result in bench.action.ended]
    assert messages[0].startswith('the node is shutting down (it waited 0.0')
    assert messages[1] == 'the node is shutting down (4 tokens were generated)'
    assert first.feedback


def test_positions_are_told_when_they_change(bench):
    waiting = bench.send(1)
    assert waiting.feedback[-1].queue_position == 0
    bench.send(2, priority=1)
    assert [message.queue_position for message in waiting.feedback] == [0, 1]
    bench.goals.tell_positions()
    assert len(waiting.feedback) == 2


def test_a_lost_client_ends_its_goals_only(bench, node, monkeypatch):
    bench.send(1)
    bench.send(2)
    lost = next(goal for goal in bench.goals.open_goals if goal.number == 1).client
    monkeypatch.setattr(bench.goals._clients, 'is_lost', lambda trace, _present: trace is lost)
    bench.goals.watch()
    assert bench.ended == [(1, 'CANCELED')]
    result = bench.action.ended[0][2]
    assert result.error_code == ErrorCode.CLIENT_LOST
    assert CLIENT_LOST.message in result.error_msg
    assert any('CLIENT_LOST' in line for line in node.log.lines)


def test_a_lost_client_is_reported_once_when_its_goals_go_on(bench, node, monkeypatch):
    bench.settings = ServerSettings(cancel_on_client_loss=False)
    bench.send(1)
    monkeypatch.setattr(bench.goals._clients, 'is_lost', lambda *_: True)
    bench.goals.watch()
    bench.goals.watch()
    assert bench.ended == []
    assert sum('runs to its end' in line for line in node.log.lines) == 1


def test_a_default_timeout_ends_a_goal_in_the_queue(bench):
    bench.settings = ServerSettings(default_timeout_s=1e-9)
    bench.send(1)
    bench.goals.watch()
    assert bench.ended == [(1, 'TIMEOUT')]
    assert 'the timeout of 1e-09 s passed in the queue' in bench.action.ended[0][2].error_msg


def test_the_clock_of_a_running_goal_is_the_decode_threads(bench):
    bench.settings = ServerSettings(default_timeout_s=1e-9)
    bench.send(1, max_tokens=1000)
    bench.script.before_iteration = lambda _: bench.goals.watch()
    bench.serve()
    bench.outbox.run()
    assert bench.ended == [(1, 'TIMEOUT')]
    assert 'while generating' in bench.action.ended[0][2].error_msg


def test_out_of_memory_is_told_as_such(bench):
    bench.send(1)

    def fail(_number):
        raise MemoryError('no more')

    bench.script.before_iteration = fail
    bench.serve()
    bench.outbox.run()
    assert bench.action.ended[0][2].error_code == ErrorCode.OUT_OF_MEMORY


def test_a_defect_in_prepare_ends_the_goal(bench, monkeypatch):
    def fail(_request):
        raise KeyError('token')

    monkeypatch.setattr(bench.runtime, 'prepare', fail)
    bench.send(1)
    assert bench.ended == [(1, 'ERROR')]
    assert bench.action.ended[0][2].error_code == ErrorCode.INTERNAL
    assert bench.action.ended[0][2].error_msg == "KeyError: 'token'"


def test_one_line_a_goal_and_no_prompt_unless_asked(bench, node):
    bench.send(1, prompt='secret words')
    bench.serve()
    bench.outbox.run()
    assert len(node.log.lines) == 1
    assert node.log.lines[0].startswith(f'info: goal {"01" * 16} (number 1, priority 0) LENGTH: '
                                        '2 + 4 tokens in ')
    assert 'secret' not in node.log.lines[0]
    assert 'w0' not in node.log.lines[0]
    bench.settings = ServerSettings(log_prompts=True)
    bench.send(2, prompt='secret words')
    bench.serve()
    bench.outbox.run()
    assert any('secret words' in line for line in node.log.lines)
    assert any("'w0 w1 w2 w3 '" in line for line in node.log.lines)


def preempting(bench, *, of_goal, at_iteration, then):
    """Have something happen in an iteration of the goal that was sent as number ``of_goal``."""
    bench.settings = ServerSettings(preemption=True)

    def before_iteration(number):
        if bench.runtime.num_goals == of_goal and number == at_iteration:
            then()
    bench.script.before_iteration = before_iteration


def test_a_goal_of_higher_priority_interrupts_and_nothing_is_lost_or_repeated(bench):
    low = bench.send(1, max_tokens=10)
    preempting(bench, of_goal=1, at_iteration=2, then=lambda: bench.send(2, priority=1))
    bench.serve()
    bench.outbox.run()
    assert bench.ended == []
    assert low.feedback[-1].state == GoalState.QUEUED
    assert (low.feedback[-1].queue_position, low.feedback[-1].completion_tokens) == (1, 6)
    bench.serve()
    bench.outbox.run()
    assert bench.ended == [(2, 'LENGTH')]
    bench.serve()
    bench.outbox.run()
    assert bench.ended == [(2, 'LENGTH'), (1, 'LENGTH')]
    text = ''.join(f'w{number} ' for number in range(10))
    assert ''.join(message.delta_text for message in low.feedback) == text
    assert bench.action.ended[1][2].text == text
    assert [message.seq for message in low.feedback] == list(range(len(low.feedback)))
    assert bench.action.begun == [1, 2, 1]


@pytest.mark.parametrize(('priority', 'preemption'), [(0, True), (-1, True), (9, False)])
def test_a_goal_is_not_interrupted(bench, priority, preemption):
    bench.send(1)
    preempting(bench, of_goal=1, at_iteration=0,
               then=lambda: bench.send(2, priority=priority))
    bench.settings = ServerSettings(preemption=preemption)
    bench.serve()
    bench.outbox.run()
    assert bench.ended == [(1, 'LENGTH')]


def interrupted(bench):
    handle = bench.send(1, max_tokens=10)
    preempting(bench, of_goal=1, at_iteration=2, then=lambda: bench.send(2, priority=1))
    bench.serve()
    return handle


def test_an_interrupted_goal_can_be_canceled_and_keeps_its_text(bench):
    handle = interrupted(bench)
    bench.outbox.run()
    assert bench.goals.cancel(handle)
    bench.outbox.run()
    assert bench.ended == [(1, 'CANCELED')]
    result = bench.action.ended[0][2]
    assert (result.text, result.completion_tokens) == ('w0 w1 w2 w3 w4 w5 ', 6)
    assert result.error_msg == 'canceled by a client (while a goal of higher priority was served)'
    assert ''.join(message.delta_text for message in handle.feedback) == result.text


def test_a_cancel_that_comes_as_the_goal_is_interrupted_ends_it(bench):
    handle = bench.send(1, max_tokens=10)
    preempting(bench, of_goal=1, at_iteration=2, then=lambda: bench.send(2, priority=1))
    put_back = bench.goals.decode_thread.put_back

    def put_back_late(goal):
        bench.goals.stop(goal, CANCELED)  # the goal does not wait, and no iteration will ask
        put_back(goal)
    bench.goals.decode_thread.put_back = put_back_late
    bench.serve()
    bench.outbox.run()
    assert bench.ended == [(1, 'CANCELED')]
    assert handle.feedback[-1].delta_text == ''


def test_an_interrupted_goal_times_out(bench):
    handle = interrupted(bench)
    goal = bench.goals._open[handle.goal_id.uuid]
    goal.timeout_s = 1e-9
    bench.goals.watch()
    assert bench.ended == [(1, 'TIMEOUT')]
    assert bench.action.ended[0][2].text == 'w0 w1 w2 w3 w4 w5 '


def test_an_interrupted_goal_takes_its_place_in_a_full_queue(bench):
    bench.send(1, max_tokens=10)
    bench.send(2)
    preempting(bench, of_goal=1, at_iteration=2, then=lambda: bench.send(3, priority=1))
    bench.serve()
    assert [goal.number for goal in bench.goals.decode_thread._queue] == [3, 1, 2]
    bench.send(4, priority=2)
    assert bench.action.ended[0][2].error_code == ErrorCode.QUEUE_FULL
