# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Work that other threads hand to the executor thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rclpy.exceptions import InvalidHandle
from rclpy.node import Node


class Outbox:
    """Runs callables in the executor thread, in the order in which they were posted.

    An executor's own tasks run newest first, and a publisher or goal handle used from two threads
    needs locks; one queue and one guard condition need neither.
    """

    def __init__(self, node: Node) -> None:
        self._logger = node.get_logger()
        self._work: deque[Callable[[], None]] = deque()
        self._guard = node.create_guard_condition(self._drain)

    def post(self, work: Callable[[], None]) -> None:
        """Have ``work`` run in the executor thread; any thread may call this, it never waits."""
        self._work.append(work)
        try:
            self._guard.trigger()
        except InvalidHandle:
            # The node was destroyed: there is no executor thread left to run anything.
            self._work.clear()

    def _drain(self) -> None:
        while self._work:
            work = self._work.popleft()
            try:
                work()
            except Exception as error:
                # One failed publication must not take those behind it, or the executor, along.
                self._logger.error(f'executor work failed: {type(error).__name__}: {error}')
