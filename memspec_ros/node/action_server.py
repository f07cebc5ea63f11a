# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""An action server whose goals are executed elsewhere and end when told."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import GoalEvent
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from memspec_ros.action import Generate
from memspec_ros.node.client_guid import client_prefix
from memspec_ros.node.client_watch import ClientTrace
from memspec_ros.records import FinishReason

# Results are kept so long for clients that ask late, about 5 kB each; who asks at once gets the
# result however long it takes. It counts from a goal's end, but in Humble from its acceptance:
# there it must be longer than goals take.
RESULT_TIMEOUT_S = 300 if os.environ.get('ROS_DISTRO') == 'humble' else 60
# By default 10 requests are kept that were not taken yet, and the executor takes one at a time:
# of thirty goals that come at once, some would be lost without a word.
REQUEST_QOS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)
# Position updates of a whole queue come in one burst.
FEEDBACK_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)


class QueuedActionServer(ActionServer):
    """Accepts each goal at once, marks it executing when told, and ends it when told.

    rclpy's own server executes a goal in a callback, and that would hold an executor thread for
    as long as a text takes. Belongs to the executor thread.

    :param trace_client: called with the sender's GUID prefix (None when unknown) before the sender
        gets an answer, so while it is still there.
    :param on_accepted: gets the goal handle and what ``trace_client`` returned.
    :param on_cancel: gets the goal handle; whether the goal can be canceled.
    """

    def __init__(self, node: Node, name: str, *,
                 trace_client: Callable[[bytes | None], ClientTrace],
                 on_accepted: Callable[[Any, ClientTrace], None],
                 on_cancel: Callable[[Any], bool]) -> None:
        self._trace_client = trace_client
        self._trace: ClientTrace | None = None
        self._on_accepted = on_accepted
        super().__init__(
            node, Generate, name, execute_callback=_never,
            goal_callback=lambda _goal: GoalResponse.ACCEPT,
            handle_accepted_callback=self._accept,
            cancel_callback=lambda handle: (CancelResponse.ACCEPT if on_cancel(handle)
                                            else CancelResponse.REJECT),
            goal_service_qos_profile=REQUEST_QOS, result_service_qos_profile=REQUEST_QOS,
            cancel_service_qos_profile=REQUEST_QOS, feedback_pub_qos_profile=FEEDBACK_QOS,
            result_timeout=RESULT_TIMEOUT_S)

    def take_data(self) -> dict[str, Any]:
        """Take what has come, and note who sent a goal."""
        try:
            data: dict[str, Any] = super().take_data()
            if 'goal' in data:
                self._trace = self._trace_client(client_prefix(data['goal'][0]))
        except Exception as error:
            # rclpy would never wait on this server again.
            self._logger.error(f'a request could not be read: {type(error).__name__}: {error}')
            return {}
        return data

    def notify_execute(self, goal_handle: Any, execute_callback: Any) -> None:
        """Run nothing: ``begin`` marks a goal as executing, the decode thread does the work."""

    def begin(self, handle: Any) -> None:
        """Mark a goal as executing, unless a cancel came before."""
        if handle.status == GoalStatus.STATUS_ACCEPTED:
            handle.execute()

    def end(self, handle: Any, reason: FinishReason, result: Any) -> None:
        """Bring a goal to its one terminal status and send the result."""
        # An accepted goal has to pass through executing, or canceling, to end.
        self.begin(handle)
        if reason in (FinishReason.STOP, FinishReason.LENGTH, FinishReason.CONTEXT):
            handle.succeed()
        elif reason is FinishReason.CANCELED:
            if not handle.is_cancel_requested:
                # Canceled by the node, in the place of a client that has left.
                handle._update_state(GoalEvent.CANCEL_GOAL)
            handle.canceled()
        else:
            handle.abort()
        super().notify_execute(handle, lambda _handle: result)

    def _accept(self, handle: Any) -> None:
        # Taken in the same turn of the executor, so it is this goal's.
        assert self._trace is not None
        self._on_accepted(handle, self._trace)


def _never(_handle: Any) -> Any:
    raise AssertionError('goals are not executed by the executor')
