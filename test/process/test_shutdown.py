# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The end of the process in each state: in time, and with every client told."""

import signal

import pytest
from action_msgs.msg import GoalStatus

from memspec_ros.action import Generate
from memspec_ros.client import connect
from memspec_ros.errors import ErrorCode
from memspec_ros.records import FinishReason, GoalState, Request

# What the node promises, and what a busy machine may add to it.
LIMIT_S = 3.0
BY_HAND = ('-p', 'server.autostart:=false')
NUMBERS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize('number', NUMBERS)
def test_unconfigured(start_node, peer, number):
    node = start_node(ros_args=BY_HAND)
    assert peer.state() == 'unconfigured'
    code, seconds = node.stop(number)
    assert (code, seconds < LIMIT_S) == (0, True)


def test_configuring(start_node):
    node = start_node('--load-s', 60)
    node.wait_for('loading target')
    code, seconds = node.stop()
    assert (code, seconds < LIMIT_S) == (0, True)
    node.wait_for('a thread is still busy')


def test_inactive(start_node, peer):
    node = start_node(ros_args=BY_HAND)
    assert peer.change_state('configure')
    code, seconds = node.stop()
    assert (code, seconds < LIMIT_S) == (0, True)
    assert 'still busy' not in node.output


def test_after_a_failed_configure(start_node):
    node = start_node(ros_args=('-p', 'target.model:=fake:missing'))
    node.wait_for('The node stays up')
    code, seconds = node.stop()
    assert (code, seconds < LIMIT_S) == (0, True)


@pytest.mark.parametrize('number', NUMBERS)
def test_active_with_goals_in_queue_and_decode(start_node, number):
    node = start_node('--iteration-s', 0.01,
                      ros_args=('-p', 'target.context_tokens:=200000'))
    node.wait_for('active')
    with connect() as client:
        goals = [client.send(Request(prompt='a', max_tokens=100_000)) for _ in range(3)]
        for _ in goals[0].deltas():
            break
        code, seconds = node.stop(number)
        assert (code, seconds < LIMIT_S) == (0, True)
        results = [goal.result(30) for goal in goals]
    assert [goal.status for goal in goals] == [GoalStatus.STATUS_ABORTED] * 3
    assert [result.error_code for result in results] == [ErrorCode.SHUTTING_DOWN] * 3
    assert [result.finish_reason for result in results] == [FinishReason.ERROR] * 3
    assert results[0].text.startswith('w0 w1')
    assert 'the node is shutting down' in results[2].error_msg
    assert 'Traceback' not in node.output
    assert 'still busy' not in node.output


def test_in_prefill(start_node):
    node = start_node('--prefill-s', 0.01)
    node.wait_for('active')
    with connect() as client:
        states = []
        goal = client.send(Request(prompt='a ' * 1000, max_tokens=10),
                           on_progress=lambda progress: states.append(progress.state))
        node.wait_for('active')
        wait_until(lambda: GoalState.PREFILL in states, goal)
        code, seconds = node.stop()
        assert (code, seconds < LIMIT_S) == (0, True)
        assert goal.result(30).error_code == ErrorCode.SHUTTING_DOWN


def test_in_a_pass_that_does_not_end(start_node, peer):
    node = start_node('--iteration-s', 60)
    peer.wait_for_state('active')
    with peer.raw_client() as client:
        states = []
        handle = peer.send_raw(client, Generate.Goal(prompt='a', max_tokens=10),
                               lambda message: states.append(message.feedback.state))
        result = peer.run(handle.get_result_async)
        while GoalState.PREFILL not in states:
            peer.run(lambda: None)
        code, seconds = node.stop()
        assert (code, seconds < LIMIT_S) == (0, True)
        response = peer.future(lambda: result)
    assert response.status == GoalStatus.STATUS_ABORTED
    assert response.result.error_code == ErrorCode.SHUTTING_DOWN
    assert 'the running pass did not end in time' in response.result.error_msg
    node.wait_for('a thread is still busy')


def test_an_end_that_never_ends_is_cut_short_and_told(start_node):
    node = start_node('--stuck-end')
    node.wait_for('active')
    code, seconds = node.stop()
    assert (code, seconds < LIMIT_S) == (0, True)
    assert 'stuck in its end' in node.output
    assert 'in run' in node.output


def test_asked_twice_it_ends_at_once(start_node):
    node = start_node('--stuck-end')
    node.wait_for('active')
    node.send(signal.SIGINT)
    node.wait_for('shutting down')
    node.send(signal.SIGINT)
    # 0 is the code of an end that took its time, stuck or not.
    assert node.process.wait(30) == 1


def wait_until(condition, goal):
    """Wait for feedback that brings a condition about."""
    while not condition():
        assert not goal.done()
