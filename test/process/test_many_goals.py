# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Three clients at once, thirty goals, cancels at random moments."""

import json
import queue
from collections import Counter, defaultdict
from pathlib import Path

from action_msgs.msg import GoalStatus, GoalStatusArray
from rclpy.qos import QoSProfile, ReliabilityPolicy

from memspec_ros.action import Generate
from memspec_ros.errors import ErrorCode
from memspec_ros.records import FinishReason

CLIENT = Path(__file__).resolve().parents[1] / 'ros_support' / 'many_goals_client.py'
ENDED = (GoalStatus.STATUS_SUCCEEDED, GoalStatus.STATUS_CANCELED, GoalStatus.STATUS_ABORTED)
NUM_CLIENTS, NUM_GOALS = 3, 10
EXPECTED = {
    FinishReason.LENGTH: (GoalStatus.STATUS_SUCCEEDED, ErrorCode.NONE),
    FinishReason.CANCELED: (GoalStatus.STATUS_CANCELED, ErrorCode.CANCELED)}


def drain(messages):
    while True:
        try:
            yield messages.get_nowait()
        except queue.Empty:
            return


def test_every_goal_ends_once_with_a_filled_result(start, start_node, peer):
    node = start_node('--iteration-s', 0.004, '--prefill-s', 0.002,
                      ros_args=('-p', 'server.queue_capacity:=64'))
    node.wait_for('active')
    with peer.raw_client() as client:
        peer.result(peer.send_raw(client, Generate.Goal(prompt='warm', max_tokens=2)))
        threads, files = node.num_threads(), node.num_files()
        with peer.listening(GoalStatusArray, '/generate/_action/status', QoSProfile(
                depth=1000, reliability=ReliabilityPolicy.RELIABLE)) as statuses:
            clients = [start(CLIENT, seed, NUM_GOALS) for seed in range(NUM_CLIENTS)]
            for one in clients:
                assert one.process.wait(120) == 0, one.output
                one.kill()
            terminal = defaultdict(set)
            for message in drain(statuses):
                for status in message.status_list:
                    if status.status in ENDED:
                        terminal[bytes(status.goal_info.goal_id.uuid).hex()].add(status.status)
        after = peer.result(peer.send_raw(client, Generate.Goal(prompt='after', max_tokens=2)))
    reports = [json.loads(line) for one in clients for line in one.lines]
    assert len(reports) == NUM_CLIENTS * NUM_GOALS
    for report in reports:
        assert (report['status'], report['error_code']) == EXPECTED[report['finish_reason']]
        assert (report['ends'], report['joined'], report['prompt_tokens']) == (1, True, 20)
        assert bool(report['error_msg']) == bool(report['error_code'])
        assert report['total_s'] > 0
        assert terminal[report['id']] == {report['status']}
    moments = Counter(report['moment'] for report in reports
                      if report['finish_reason'] == FinishReason.CANCELED)
    assert len(moments) >= 3, moments
    assert after.status == GoalStatus.STATUS_SUCCEEDED
    assert node.num_threads() == threads
    assert node.num_files() <= files
    assert 'Traceback' not in node.output
    assert node.stop()[0] == 0
