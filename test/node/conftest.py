# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the node's parts in this process; they need rclpy and the built interfaces."""

import sys
import types
from collections import deque
from pathlib import Path

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2')
pytest.importorskip('memspec_ros.action', reason='needs the built interfaces')
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'ros_support'))


class Clock:
    """Seconds that pass when told."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


class ManualOutbox:
    """Runs what was posted when told, in order: the executor thread's turns."""

    def __init__(self):
        self.work = deque()

    def post(self, work):
        self.work.append(work)

    def run_next(self):
        self.work.popleft()()

    def run(self):
        while self.work:
            self.run_next()


@pytest.fixture
def outbox():
    return ManualOutbox()


class Log:
    """A logger that keeps its lines."""

    def __init__(self):
        self.lines = []

    def __getattr__(self, level):
        return lambda line: self.lines.append(f'{level}: {line}')


class StubNode:
    """What the parts ask of a node, without a ROS context."""

    def __init__(self):
        self.log = Log()
        self.subscribers = []
        self.published = {}

    def get_logger(self):
        return self.log

    def get_name(self):
        return 'memspec'

    def get_namespace(self):
        return '/'

    def get_fully_qualified_name(self):
        return '/memspec'

    def resolve_service_name(self, name):
        return f'/{name}'

    def get_clock(self):
        from builtin_interfaces.msg import Time
        return types.SimpleNamespace(now=lambda: types.SimpleNamespace(to_msg=Time))

    def create_publisher(self, _type, topic, _qos):
        messages = self.published.setdefault(topic, [])
        return types.SimpleNamespace(publish=messages.append)

    def get_subscriptions_info_by_topic(self, _topic):
        return [types.SimpleNamespace(endpoint_gid=list(prefix) + [0] * 4)
                for prefix in self.subscribers]

    def get_publishers_info_by_topic(self, _topic):
        return [types.SimpleNamespace(endpoint_gid=[9] * 16, node_name='memspec',
                                      node_namespace='/')]


@pytest.fixture
def node():
    return StubNode()
