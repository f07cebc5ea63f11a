# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A client as anyone may write it: one goal, without the package's helper, until it is killed."""

import sys

import rclpy
from rclpy.action import ActionClient

from memspec_ros.action import Generate


def run(max_tokens):
    rclpy.init()
    node = rclpy.create_node('raw_client')
    client = ActionClient(node, Generate, 'generate')
    assert client.wait_for_server(30)
    told = []

    def on_feedback(message):
        if message.feedback.state == Generate.Feedback.STATE_DECODE and not told:
            told.append(True)
            print('decoding', flush=True)

    sent = client.send_goal_async(Generate.Goal(prompt='a', max_tokens=max_tokens), on_feedback)
    rclpy.spin_until_future_complete(node, sent)
    print('goal', bytes(sent.result().goal_id.uuid).hex(), flush=True)
    rclpy.spin_until_future_complete(node, sent.result().get_result_async())


if __name__ == '__main__':
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
