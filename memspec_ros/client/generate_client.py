# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Sends goals to a node, for any number of goals at a time."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.action.client import ClientGoalHandle
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from memspec_ros.action import Generate
from memspec_ros.client.generation import Generation, ServerLostError
from memspec_ros.node.conversions import goal_from_request
from memspec_ros.node.outbox import Outbox
from memspec_ros.records import Progress, Request

ACTION_NAME = 'generate'
# By default 10 answers or messages are kept that were not taken yet.
BURST_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
CHECK_PERIOD_S = 0.2
# How long a server that was there may be absent from the graph.
SERVER_GRACE_S = 2.0
# How long a goal waits for a server; discovery takes seconds on a busy machine.
SERVER_WAIT_S = 10.0
# After so long without a sign of life the result is asked for: an answer may be lost before both
# sides have found each other, and a node that was killed and started again is in the graph all
# the time, and only says then that it does not know the goal.
PROBE_AFTER_S = 5.0


class GenerateClient:
    """Sends goals to a node that serves ``generate``.

    All methods may be called from any thread, callbacks included; none waits but
    :meth:`wait_for_server`. The executor of ``node`` must be spun by its owner.

    :param action_name: relative to the node's namespace, or absolute.
    :param server_wait_s: how long a goal may wait for a server to appear.
    """

    def __init__(self, node: Node, action_name: str = ACTION_NAME, *,
                 server_wait_s: float = SERVER_WAIT_S) -> None:
        self._node = node
        self._name = action_name
        # Requests are sent from the executor thread: rclpy notes a request after it has sent it,
        # and from another thread the answer may come in between.
        self._outbox = Outbox(node)
        self._action_client = ActionClient(
            node, Generate, action_name, goal_service_qos_profile=BURST_QOS,
            result_service_qos_profile=BURST_QOS, cancel_service_qos_profile=BURST_QOS,
            feedback_sub_qos_profile=BURST_QOS)
        self._server_wait_s = server_wait_s
        self._unsent: list[Generation] = []
        self._open: set[Generation] = set()
        self._present_s = 0.0
        self._timer = node.create_timer(CHECK_PERIOD_S, self._check,
                                        clock=Clock(clock_type=ClockType.STEADY_TIME))

    def server_is_ready(self) -> bool:
        """Whether a node serves the action now."""
        return bool(self._action_client.server_is_ready())

    def wait_for_server(self, timeout_s: float | None = None) -> bool:
        """Wait until a node serves the action; not for callbacks. False when none came."""
        return bool(self._action_client.wait_for_server(timeout_s))

    def send(self, request: Request,
             on_progress: Callable[[Progress], None] | None = None) -> Generation:
        """Send a goal.

        :param on_progress: called in the executor thread with each feedback; must return soon.
        """
        generation = Generation(request, on_progress=on_progress,
                                request_cancel=self._request_cancel)
        self._outbox.post(functools.partial(self._send, generation))
        return generation

    def destroy(self) -> None:
        """Leave; goals that have not ended fail with :class:`ServerLostError`."""
        self._fail([*self._open, *self._unsent], 'the client was destroyed')
        self._node.destroy_timer(self._timer)
        self._action_client.destroy()

    def _send(self, generation: Generation) -> None:
        if not self._open and not self._unsent:
            self._present_s = time.monotonic()
        # A request that no server hears is lost.
        self._unsent.append(generation)
        if self.server_is_ready():
            self._send_unsent()

    def _send_unsent(self) -> None:
        unsent, self._unsent = self._unsent, []
        for generation in unsent:
            try:
                self._submit(generation)
            except Exception as error:
                generation.fail(error)
            else:
                self._open.add(generation)

    def _submit(self, generation: Generation) -> None:
        generation.last_news_s = time.monotonic()
        future = self._action_client.send_goal_async(
            goal_from_request(generation.request), goal_uuid=generation.goal_id,
            feedback_callback=functools.partial(_take_feedback, generation))
        future.add_done_callback(functools.partial(self._on_accepted, generation))

    def _on_accepted(self, generation: Generation, future: Any) -> None:
        # A goal that was sent again is rejected when the server has it already.
        if generation.take_handle(future.result()):
            generation.handle.cancel_goal_async()
        self._ask_for_result(generation, generation.handle)

    def _ask_for_result(self, generation: Generation, handle: Any) -> None:
        generation.last_news_s = time.monotonic()
        handle.get_result_async().add_done_callback(functools.partial(self._on_result, generation))

    def _on_result(self, generation: Generation, future: Any) -> None:
        response = future.result()
        if generation.done():
            return
        if response.status == GoalStatus.STATUS_UNKNOWN and generation.handle is None:
            # Neither the goal nor an answer has arrived. With the same id it cannot run twice.
            self._submit(generation)
            return
        self._open.discard(generation)
        generation.take_result(response)

    def _probe(self, generation: Generation) -> None:
        handle = generation.handle or ClientGoalHandle(
            self._action_client, generation.goal_id,
            Generate.Impl.SendGoalService.Response(accepted=True))
        self._ask_for_result(generation, handle)

    def _request_cancel(self, handle: Any) -> None:
        self._outbox.post(handle.cancel_goal_async)

    def _check(self) -> None:
        if not self._open and not self._unsent:
            return
        now_s = time.monotonic()
        if self.server_is_ready():
            self._present_s = now_s
            self._send_unsent()
            for generation in tuple(self._open):
                if now_s - generation.last_news_s > PROBE_AFTER_S:
                    self._probe(generation)
            return
        absent_s = now_s - self._present_s
        if absent_s >= SERVER_GRACE_S:
            self._fail(self._open, f"the node that served '{self._name}' has left")
        if absent_s >= self._server_wait_s:
            unsent, self._unsent = self._unsent, []
            self._fail(unsent, f"no node serves the action '{self._name}': none came in "
                       f'{self._server_wait_s:g} s')

    def _fail(self, generations: Iterable[Generation], message: str) -> None:
        for generation in tuple(generations):
            self._open.discard(generation)
            generation.fail(ServerLostError(message))


def _take_feedback(generation: Generation, message: Any) -> None:
    generation.last_news_s = time.monotonic()
    generation.take_feedback(message.feedback)
