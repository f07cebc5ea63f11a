# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""An action server whose goals are executed elsewhere and end when told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import GoalEvent
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from memspec_ros.action import Generate
from memspec_ros.node.client_guid import client_prefix
from memspec_ros.records import FinishReason

# Results are kept so long after the goal's end (in Humble: after its acceptance, so longer than
# goals take) for clients that ask late; who asks at once gets the result however long it takes.
# A robot that asks every second makes 300 of them, about 5 kB each.
RESULT_TIMEOUT_S = 300
# By default 10 requests are kept that were not taken yet, and the executor takes one at a time:
# of thirty goals that come at once, some would be lost without a word.
REQUEST_QOS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)
# Position updates of a whole queue come in one burst.
FEEDBACK_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)


class QueuedActionServer(ActionServer):
    """Accepts each goal at once, marks it executing when told, and ends it when told.

    rclpy's own server executes a goal in a callback, and that would hold an executor thread for
    as long as a text takes. Belongs to the executor thread.

    :param on_accepted: gets the goal handle and the sender's GUID prefix (None when unknown).
    :param on_cancel: gets the goal handle; whether the goal can be canceled.
    """

    def __init__(self, node: Node, name: str, *,
                 on_accepted: Callable[[Any, bytes | None], None],
                 on_cancel: Callable[[Any], bool]) -> None:
        self._sender: tuple[bytes, bytes | None] = (b'', None)
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
        except Exception as error:
            # rclpy would never wait on this server again.
            self._logger.error(f'a request could not be read: {type(error).__name__}: {error}')
            return {}
        if 'goal' in data:
            header, request = data['goal']
            self._sender = (bytes(request.goal_id.uuid), client_prefix(header))
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
        if reason in (FinishReason.STOP, FinishReason.LENGTH):
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
        uuid, prefix = self._sender
        self._on_accepted(handle, prefix if uuid == bytes(handle.goal_id.uuid) else None)


def _never(_handle: Any) -> Any:
    raise AssertionError('goals are not executed by the executor')
