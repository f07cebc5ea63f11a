# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The way to the executor thread."""

import threading

import pytest
import rclpy
from domain import own_domain, ros_environment
from rclpy.executors import SingleThreadedExecutor

from memspec_ros.node.outbox import Outbox


@pytest.fixture
def ros_node():
    with own_domain() as domain, ros_environment(domain):
        context = rclpy.Context()
        rclpy.init(context=context)
        node = rclpy.create_node('outbox', context=context)
        yield node
        node.destroy_node()
        rclpy.shutdown(context=context)


def test_work_of_all_threads_runs_in_the_executor_in_order(ros_node):
    outbox, ran = Outbox(ros_node), []
    executor = SingleThreadedExecutor(context=ros_node.context)
    executor.add_node(ros_node)

    def post():
        for number in range(100):
            outbox.post(lambda number=number: ran.append((threading.get_ident(), number)))

    thread = threading.Thread(target=post)
    thread.start()
    while len(ran) < 100:
        executor.spin_once(timeout_sec=30)
    thread.join()
    executor.shutdown()
    assert ran == [(threading.get_ident(), number) for number in range(100)]


def test_work_that_raises_does_not_take_the_next_along(ros_node):
    outbox, ran = Outbox(ros_node), []
    outbox.post(lambda: 1 / 0)
    outbox.post(lambda: ran.append('next'))
    executor = SingleThreadedExecutor(context=ros_node.context)
    executor.add_node(ros_node)
    executor.spin_once(timeout_sec=30)
    executor.shutdown()
    assert ran == ['next']


def test_posting_to_a_node_that_is_gone_is_no_error(ros_node):
    outbox = Outbox(ros_node)
    ros_node.destroy_node()
    outbox.post(lambda: None)
