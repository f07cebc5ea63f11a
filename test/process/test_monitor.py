# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec monitor`` beside a real node, over real DDS."""

import signal

import pytest
from peer import wait_for

from memspec_ros.action import Generate
from memspec_ros.msg import Throughput

NODE_OPTIONS = ('--iteration-s', 0.001)
ROS_ARGS = ('-p', 'machine.thermal_folder:=/nonexistent')


@pytest.fixture
def monitor(start):
    return lambda *options: start('-m', 'memspec_ros.cli', 'monitor', *options)


def test_one_picture_of_a_node_that_serves(start_node, peer, monitor):
    start_node(*NODE_OPTIONS, ros_args=ROS_ARGS).wait_for('active')
    with peer.raw_client() as client:
        peer.result(peer.send_raw(client, Generate.Goal(prompt='a', max_tokens=10)))
    process = monitor('--once', '--wait', 30)
    assert process.process.wait(60) == 0
    process.wait_for('/memspec: active')
    process.wait_for('tokens/s        50.0')
    for text in ('drafts: K 2, 2.0 MB resident', '*alpha', '*beta', '    prefetched',
                 'OK    lifecycle: active', 'OK    goal queue: 0 goals wait',
                 'OK    memory: available'):
        assert text in process.output, text
    assert '\x1b' not in process.output


def test_another_node_is_not_taken_for_it(start_node, peer, monitor):
    start_node(ros_args=('-r', '__ns:=/left', '-p', 'server.autostart:=false'))
    peer.node_name = '/left/memspec'
    peer.wait_for_state('unconfigured')
    other = monitor('--once', '--wait', 3)
    own = monitor('--once', '--namespace', 'left', '--wait', 30)
    assert own.process.wait(60) == 0
    own.wait_for('/left/memspec: unconfigured')
    own.wait_for('WARN  lifecycle: unconfigured')
    assert other.process.wait(60) == 1
    other.wait_for("the node '/memspec' told nothing within 3 s")


def test_it_draws_again_with_each_message_until_interrupted(start_node, peer, monitor):
    start_node(*NODE_OPTIONS, ros_args=ROS_ARGS).wait_for('active')
    process = monitor()
    process.wait_for('tokens/s        50.0')
    with peer.listening(Throughput, '/memspec/throughput') as messages:
        wait_for(messages, lambda _: process.output.count('\x1b[H') >= 4)
    assert process.stop(signal.SIGINT)[0] == 0
