# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Clients that die: their goals end, and nobody else's."""

import signal
import time
from pathlib import Path

import pytest
from action_msgs.msg import GoalStatus, GoalStatusArray
from rclpy.action.server import qos_profile_action_status_default

from memspec_ros.client import connect
from memspec_ros.records import FinishReason, Request

CLIENT = Path(__file__).resolve().parents[1] / 'ros_support' / 'raw_client.py'
ENDED = (GoalStatus.STATUS_SUCCEEDED, GoalStatus.STATUS_CANCELED, GoalStatus.STATUS_ABORTED)
OPTIONS = ('--iteration-s', 0.01)
ROS_ARGS = ('-p', 'target.context_tokens:=200000')
LOST = 'CLIENT_LOST: the client that sent the goal has left'


@pytest.fixture
def statuses(peer):
    with peer.listening(GoalStatusArray, '/generate/_action/status',
                        qos_profile_action_status_default) as statuses:
        yield statuses


def wait_for_end(statuses, goal_id):
    """Return the terminal status of a goal, as the status topic has it."""
    while True:
        for status in statuses.get(timeout=30).status_list:
            if bytes(status.goal_info.goal_id.uuid).hex() == goal_id and status.status in ENDED:
                return status.status


def start_client(start):
    """Start a client whose goal decodes; return its process and its goal's id."""
    client = start(CLIENT)
    client.wait_for('decoding')
    return client, client.wait_for('goal ').split()[1]


@pytest.mark.parametrize('number', [signal.SIGKILL, signal.SIGTERM])
def test_its_goal_is_canceled_within_two_seconds(start, start_node, statuses, number):
    node = start_node(*OPTIONS, ros_args=ROS_ARGS)
    node.wait_for('active')
    client, goal_id = start_client(start)
    client.send(number)
    killed_s = time.monotonic()
    assert wait_for_end(statuses, goal_id) == GoalStatus.STATUS_CANCELED
    assert time.monotonic() - killed_s < 2.0
    node.wait_for(LOST)
    with connect() as survivor:
        assert survivor.send(Request(prompt='a', max_tokens=4)).result(30).text == 'w0 w1 w2 w3 '


def test_among_others_only_its_goal_ends_running_or_queued(start, start_node, statuses):
    node = start_node(*OPTIONS, ros_args=ROS_ARGS)
    node.wait_for('active')
    with connect() as survivor:
        running = survivor.send(Request(prompt='a', max_tokens=200_000 - 1))
        for _ in running.deltas():
            break
        client = start(CLIENT)
        goal_id = client.wait_for('goal ').split()[1]
        client.send(signal.SIGKILL)
        killed_s = time.monotonic()
        assert wait_for_end(statuses, goal_id) == GoalStatus.STATUS_CANCELED
        assert time.monotonic() - killed_s < 2.0
        assert 'CANCELED' in node.wait_for(f'goal {goal_id} (number')
        assert not running.done()
        running.cancel()
        assert running.result(30).finish_reason == FinishReason.CANCELED
    assert node.output.count('CLIENT_LOST') == 1


def test_by_parameter_it_runs_to_its_end(start, start_node, statuses):
    node = start_node('--iteration-s', 0.01, ros_args=(
        *ROS_ARGS, '-p', 'server.cancel_on_client_loss:=false'))
    node.wait_for('active')
    client = start(CLIENT, 300)
    client.wait_for('decoding')
    goal_id = client.wait_for('goal ').split()[1]
    client.send(signal.SIGKILL)
    assert wait_for_end(statuses, goal_id) == GoalStatus.STATUS_SUCCEEDED
    node.wait_for(f'goal {goal_id[:8]}: the client that sent the goal has left; it runs to its')
    assert 'LENGTH: 1 + 300 tokens' in node.wait_for(f'goal {goal_id} (number')
