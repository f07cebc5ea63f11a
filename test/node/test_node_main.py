# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The process around the node; how it ends is shown by test/process/test_shutdown.py."""

import threading

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
