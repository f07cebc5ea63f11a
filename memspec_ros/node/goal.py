# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One accepted goal on its way through the node."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from memspec_ros.errors import ErrorCode
from memspec_ros.node.backend import InterruptedGoal
from memspec_ros.node.client_watch import ClientTrace
from memspec_ros.records import FinishReason, Request


@dataclass(frozen=True, kw_only=True)
class StopOrder:
    """That a goal is to end early, and what its result will say."""

    reason: FinishReason
    code: ErrorCode
    message: str


CANCELED = StopOrder(reason=FinishReason.CANCELED, code=ErrorCode.CANCELED,
                     message='canceled by a client')
CLIENT_LOST = StopOrder(reason=FinishReason.CANCELED, code=ErrorCode.CLIENT_LOST,
                        message='the client that sent the goal has left')
SHUTTING_DOWN = StopOrder(reason=FinishReason.ERROR, code=ErrorCode.SHUTTING_DOWN,
                          message='the node is shutting down')
DEACTIVATED = StopOrder(reason=FinishReason.ERROR, code=ErrorCode.SHUTTING_DOWN,
                        message='the node was deactivated, and the goal did not end in time')


class Goal:
    """What the node knows of a goal.

    The executor thread writes everything but ``ended_by`` and what tells of its turns
    (``interrupted`` to ``waited_s``), which are the decode thread's. What was sent as feedback
    (``num_feedback`` to ``num_tokens``) changes hands when the goal leaves the queue, and back
    when it is interrupted. ``stop_order`` is written by the first thread, once, and read by the
    second at each iteration.
    """

    def __init__(self, *, handle: Any, number: int, client: ClientTrace) -> None:
        self.handle = handle
        self.number = number
        self.client = client
        self.uuid = bytes(handle.goal_id.uuid)
        self.accepted_s = time.monotonic()
        self.request: Request | None = None
        self.prepared: Any = None
        self.timeout_s = 0.0
        self.finished = False
        self.stop_order: StopOrder | None = None
        self.num_feedback = 0
        self.queue_position = 0
        self.sent_text = ''
        self.num_tokens = 0
        self.interrupted: InterruptedGoal | None = None
        self.num_interruptions = 0
        self.started_s = 0.0
        self.interrupted_s = 0.0
        self.waited_s = 0.0
        self.ended_by: StopOrder | None = None

    @property
    def name(self) -> str:
        """The goal's id as ``ros2 action`` prints it, shortened for the log."""
        return self.uuid.hex()[:8]

    @property
    def priority(self) -> int:
        """Higher is served first."""
        return self.request.priority if self.request else 0

    @property
    def age_s(self) -> float:
        """Seconds since acceptance."""
        return time.monotonic() - self.accepted_s

    @property
    def seconds_left(self) -> float:
        """Seconds until the timeout; infinite without one."""
        return self.timeout_s - self.age_s if self.timeout_s else math.inf

    def order_stop(self, order: StopOrder) -> None:
        """Have the goal end early; the first order counts."""
        if self.stop_order is None:
            self.stop_order = order

    def start(self) -> Any:
        """Note that the decode thread has taken the goal; return what it is to work on."""
        now_s = time.monotonic()
        self.waited_s += now_s - (self.interrupted_s or self.accepted_s)
        self.started_s = self.started_s or now_s
        interrupted, self.interrupted = self.interrupted, None
        return interrupted or self.prepared

    def interrupt(self, interrupted: InterruptedGoal) -> None:
        """Note that it gave up its turn."""
        self.interrupted, self.interrupted_s = interrupted, time.monotonic()
        self.num_interruptions += 1

    def timeout_order(self, where: str) -> StopOrder:
        """Return the order of a goal whose time is over."""
        return StopOrder(reason=FinishReason.TIMEOUT, code=ErrorCode.TIMEOUT,
                         message=f'the timeout of {self.timeout_s:g} s passed {where}')

    def should_stop(self) -> FinishReason | None:
        """Why the decode thread must end the goal now; None to go on."""
        if self.ended_by is None:
            if self.stop_order is not None:
                self.ended_by = self.stop_order
            elif self.seconds_left <= 0:
                self.ended_by = self.timeout_order('while generating')
        return self.ended_by.reason if self.ended_by else None
