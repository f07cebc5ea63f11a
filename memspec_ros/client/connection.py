# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A client for programs that have no node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from memspec_ros.client.generate_client import ACTION_NAME, SERVER_WAIT_S, GenerateClient

Made = TypeVar('Made')


@contextmanager
def connect(action_name: str = ACTION_NAME, *, node_name: str = 'memspec_client',
            ros_args: Sequence[str] = (), server_wait_s: float = SERVER_WAIT_S,
            ) -> Iterator[GenerateClient]:
    """Yield a client with a ROS context, node and executor thread of its own.

    :param ros_args: as rcl takes them, with --ros-args.
    :param server_wait_s: how long a goal may wait for a server to appear.
    """
    with connected(lambda node: GenerateClient(node, action_name, server_wait_s=server_wait_s),
                   GenerateClient.destroy, node_name=node_name, ros_args=ros_args) as client:
        yield client


@contextmanager
def connected(make: Callable[[Node], Made], destroy: Callable[[Made], None], *, node_name: str,
              ros_args: Sequence[str] = ()) -> Iterator[Made]:
    """Yield what is made of a node with a ROS context and an executor thread of its own.

    :param make: called before the thread spins, and ``destroy`` after it has ended.
    """
    context = rclpy.Context()
    rclpy.init(args=list(ros_args), context=context,
               signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node(node_name, context=context, start_parameter_services=False)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    made = make(node)
    ended = threading.Event()
    thread = threading.Thread(target=_spin, args=(executor, ended), name='client', daemon=True)
    thread.start()
    try:
        yield made
    finally:
        ended.set()
        executor.create_task(lambda: None)
        thread.join()
        destroy(made)
        executor.shutdown()
        node.destroy_node()
        rclpy.shutdown(context=context)


def _spin(executor: SingleThreadedExecutor, ended: threading.Event) -> None:
    while not ended.is_set():
        try:
            executor.spin_once()
        except ExternalShutdownException:
            return
