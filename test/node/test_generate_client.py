# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The client's requests, with answers and losses chosen by the test."""

import types

import pytest
from action_msgs.msg import GoalStatus

from memspec_ros.action import Generate
from memspec_ros.client import GenerateClient, ServerLostError, generate_client
from memspec_ros.errors import RequestError
from memspec_ros.records import Request


class Answer:
    """A future of rclpy that the test completes."""

    def add_done_callback(self, callback):
        self._callback = callback

    def come(self, value):
        self._callback(types.SimpleNamespace(result=lambda: value))


class StubActionClient:
    def __init__(self, _node, _type, _name, **_qos):
        self.ready = True
        self.goals, self.results, self.cancels = [], [], []

    def server_is_ready(self):
        return self.ready

    def send_goal_async(self, goal, *, goal_uuid, feedback_callback):
        self.goals.append(types.SimpleNamespace(goal=goal, goal_id=goal_uuid, answer=Answer(),
                                                feedback_callback=feedback_callback))
        return self.goals[-1].answer

    def _get_result_async(self, handle):
        self.results.append(types.SimpleNamespace(goal_id=handle.goal_id, answer=Answer()))
        return self.results[-1].answer

    def _cancel_goal_async(self, handle):
        self.cancels.append(handle.goal_id)

    def destroy(self):
        pass


class Bench:
    def __init__(self, node, outbox, clock, monkeypatch):
        node.create_timer = lambda *_, **__: None
        node.destroy_timer = lambda _: None
        monkeypatch.setattr(generate_client, 'ActionClient', StubActionClient)
        monkeypatch.setattr(generate_client, 'Outbox', lambda _: outbox)
        monkeypatch.setattr(generate_client, 'time', types.SimpleNamespace(monotonic=clock))
        self.clock, self.outbox = clock, outbox
        self.client = GenerateClient(node)
        self.action = self.client._action_client

    def send(self):
        generation = self.client.send(Request(prompt='a'))
        self.outbox.run()
        return generation

    def pass_time(self, seconds):
        self.clock.now_s += seconds
        self.client._check()

    def accept(self, number=0, accepted=True):
        sent = self.action.goals[number]
        sent.answer.come(generate_client.ClientGoalHandle(
            self.action, sent.goal_id,
            Generate.Impl.SendGoalService.Response(accepted=accepted)))

    def end(self, number=0, status=GoalStatus.STATUS_SUCCEEDED):
        self.action.results[number].answer.come(types.SimpleNamespace(
            status=status, result=Generate.Result(text='done', finish_reason=1)))


@pytest.fixture
def bench(node, outbox, clock, monkeypatch):
    return Bench(node, outbox, clock, monkeypatch)


def test_goal_then_result(bench):
    generation = bench.send()
    bench.accept()
    bench.end()
    assert generation.result(0).text == 'done'
    bench.pass_time(100)
    assert (len(bench.action.goals), len(bench.action.results)) == (1, 1)


def test_an_answer_that_was_lost_is_asked_for_by_the_goals_id(bench):
    generation = bench.send()
    bench.pass_time(generate_client.PROBE_AFTER_S + 1)
    assert bench.action.results[0].goal_id == generation.goal_id
    bench.end()
    assert generation.result(0).text == 'done'
    assert len(bench.action.goals) == 1


def test_a_goal_that_was_lost_is_sent_again_under_its_id(bench):
    generation = bench.send()
    bench.pass_time(generate_client.PROBE_AFTER_S + 1)
    bench.end(status=GoalStatus.STATUS_UNKNOWN)
    assert [sent.goal_id for sent in bench.action.goals] == [generation.goal_id] * 2
    # The first had only been late: the server has it, and rejects the second.
    bench.accept(1, accepted=False)
    bench.end(1)
    assert generation.result(0).text == 'done'


def test_a_server_that_forgot_the_goal(bench):
    generation = bench.send()
    bench.accept()
    bench.pass_time(generate_client.PROBE_AFTER_S + 1)
    bench.end(1, status=GoalStatus.STATUS_UNKNOWN)
    with pytest.raises(ServerLostError, match='does not know the goal'):
        generation.result(0)


def test_feedback_is_a_sign_of_life(bench):
    bench.send()
    bench.accept()
    for _ in range(3):
        bench.clock.now_s += generate_client.PROBE_AFTER_S - 1
        bench.action.goals[0].feedback_callback(types.SimpleNamespace(
            feedback=Generate.Feedback(state=3)))
        bench.client._check()
    assert len(bench.action.results) == 1


def test_a_server_that_leaves(bench):
    generation = bench.send()
    bench.accept()
    bench.action.ready = False
    bench.pass_time(generate_client.SERVER_GRACE_S / 2)
    assert not generation.done()
    bench.pass_time(generate_client.SERVER_GRACE_S)
    with pytest.raises(ServerLostError, match="the node that served 'generate' has left"):
        generation.result(0)


def test_a_goal_waits_until_a_server_is_there(bench):
    bench.action.ready = False
    first, second = bench.send(), bench.send()
    bench.pass_time(generate_client.SERVER_WAIT_S / 2)
    assert bench.action.goals == []
    bench.action.ready = True
    bench.pass_time(0.2)
    assert [sent.goal_id for sent in bench.action.goals] == [first.goal_id, second.goal_id]


def test_a_cancel_before_the_answer_is_sent_with_it(bench):
    generation = bench.send()
    generation.cancel()
    assert bench.action.cancels == []
    bench.accept()
    assert bench.action.cancels == [generation.goal_id]


def test_a_request_that_no_message_can_hold_fails_its_goal_only(bench):
    bad = bench.client.send(Request(prompt='a', priority=2**40))
    good = bench.client.send(Request(prompt='a'))
    bench.outbox.run()
    with pytest.raises(RequestError, match='priority is 1099511627776; it must be in'):
        bad.result(0)
    bench.accept()
    bench.end()
    assert good.result(0).text == 'done'
