# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Process tests: the node in a process of its own, over real DDS, in a domain of its own."""

import sys
from pathlib import Path

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2')
pytest.importorskip('memspec_ros.action', reason='needs the built interfaces')
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'ros_support'))

from domain import own_domain, ros_environment
from node_process import FAKE_NODE, ProcessUnderTest
from peer import Peer


@pytest.fixture
def ros_domain():
    with own_domain() as domain, ros_environment(domain):
        yield domain


@pytest.fixture
def start(ros_domain):  # noqa: ARG001
    """Start processes that do not outlive the test."""
    started = []

    def start_process(*arguments):
        started.append(ProcessUnderTest(*arguments))
        return started[-1]

    yield start_process
    for process in started:
        process.kill()


@pytest.fixture
def start_node(start):
    """Start nodes with a fake runtime: its options, then ``ros_args``."""
    def start_fake_node(*options, ros_args=()):
        arguments = [FAKE_NODE, *options]
        return start(*arguments, '--ros-args', *ros_args) if ros_args else start(*arguments)

    return start_fake_node


@pytest.fixture(scope='module')
def served(request):
    """One node for all tests of a module that leave it as they found it, with a peer.

    The module's ``NODE_OPTIONS`` and ``ROS_ARGS`` say how it is started.
    """
    options = getattr(request.module, 'NODE_OPTIONS', ())
    ros_args = getattr(request.module, 'ROS_ARGS', ())
    with own_domain() as domain, ros_environment(domain):
        peer = Peer()
        peer.domain = domain
        peer.process = node = ProcessUnderTest(FAKE_NODE, *options, '--ros-args', *ros_args)
        try:
            node.wait_for('active')
            yield peer
        finally:
            node.kill()
            peer.close()


@pytest.fixture
def peer(ros_domain):  # noqa: ARG001
    peer = Peer()
    yield peer
    peer.close()
