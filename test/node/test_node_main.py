# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The process around the node; how it ends is shown by test/process/test_shutdown.py."""

import subprocess
import sys
import threading

import pytest
from rclpy.executors import ExternalShutdownException

from memspec_ros.node import main


class Executor:
    """Raises what it is given, one after the other, then asks for the end."""

    def __init__(self):
        self.errors = []
        self.process = None

    def add_node(self, node):
        pass

    def spin_once(self):
        if self.errors:
            raise self.errors.pop(0)
        self.process._ended.set()


def spin(node, monkeypatch, *errors):
    executor = Executor()
    executor.errors = list(errors)
    monkeypatch.setattr(main, 'SingleThreadedExecutor', lambda: executor)
    executor.process = main._Process(node, threading.Event())
    executor.process._spin()
    return executor


def test_a_callback_that_raises_does_not_end_the_node(node, monkeypatch):
    executor = spin(node, monkeypatch, ValueError('first'), KeyError('second'))
    assert executor.errors == []
    assert executor.process._ended.is_set()
    assert 'error: in a callback: Traceback' in node.log.lines[0]
    assert 'ValueError: first' in node.log.lines[0]
    assert "KeyError: 'second'" in node.log.lines[1]


def test_a_context_that_was_shut_down_ends_the_executor(node, monkeypatch):
    executor = spin(node, monkeypatch, ExternalShutdownException(), ValueError('never'))
    assert not executor.process._ended.is_set()
    assert len(executor.errors) == 1


@pytest.mark.parametrize('module', ['memspec_ros.node.main', 'memspec_ros.client.topic_feed'])
def test_the_node_is_up_and_clients_start_without_torch(module):
    code = f'import {module}, sys; print(sorted({{"torch", "transformers"}} & set(sys.modules)))'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                          check=False)
    assert (done.stdout.strip().splitlines()[-1:], done.returncode) == (['[]'], 0), done.stderr
