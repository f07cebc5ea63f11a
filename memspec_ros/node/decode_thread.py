# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The one thread that owns every model and every token."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from memspec_ros.node.goal import Goal
from memspec_ros.node.goal_queue import GoalQueue


class DecodeThread:
    """Serves the queued goals one after the other, and runs jobs between them.

    Opening, resetting and closing the runtime are such jobs, so a model is only ever touched by
    the thread that made it. All methods may be called from any thread and do not wait.

    :param serve: answers one goal; must not raise.
    :param queue_capacity: goals that may wait.
    """

    def __init__(self, *, serve: Callable[[Goal], None], queue_capacity: int) -> None:
        self._serve = serve
        self._queue: GoalQueue[Goal] = GoalQueue(queue_capacity)
        self._jobs: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._changed = threading.Condition()
        self._running: Goal | None = None
        self._stopping = False
        # A load cannot be interrupted; as a daemon it does not keep a process that must end.
        self._thread = threading.Thread(target=self._run, name='decode', daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def submit(self, goal: Goal) -> None:
        """Queue a goal.

        :raises RequestError: QUEUE_FULL.
        """
        with self._changed:
            self._queue.put(goal)
            self._changed.notify()

    def withdraw(self, goal: Goal) -> bool:
        """Take a goal out of the queue; False when it has left it, so it runs or has run."""
        with self._changed:
            return self._queue.remove(goal)

    def put_back(self, goal: Goal) -> None:
        """Queue the goal that runs again, because it is interrupted; decode thread only."""
        with self._changed:
            self._queue.put_back(goal)

    def is_outranked(self, goal: Goal) -> bool:
        """Whether a goal of higher priority waits."""
        with self._changed:
            return self._queue.outranks(goal)

    def visit_waiting(self, visit: Callable[[Goal, int], None]) -> None:
        """Call ``visit`` with each goal that waits and how many are served before it.

        None of them begins meanwhile, so what is published about it stays true and in order.
        """
        with self._changed:
            for position, goal in enumerate(self._queue, start=int(self._running is not None)):
                visit(goal, position)

    @property
    def num_waiting(self) -> int:
        """Goals that wait."""
        return len(self._queue)

    @property
    def queue_capacity(self) -> int:
        """Goals that may wait."""
        return self._queue.capacity

    def call(self, job: Callable[[], Any]) -> Future[Any]:
        """Run a job before the next goal."""
        future: Future[Any] = Future()
        with self._changed:
            self._jobs.append((job, future))
            self._changed.notify()
        return future

    def stop(self) -> None:
        """End after the goal that runs and the jobs that were given; queued goals stay."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def join(self, limit_s: float) -> bool:
        """Wait for the end; False when the thread is still busy."""
        self._thread.join(limit_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work()
            # What was closed must be free memory now, not when the next goal comes.
            del work
            with self._changed:
                self._running = None

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._stopping or len(self._queue))
            if self._jobs:
                job, future = self._jobs.popleft()
                return lambda: _complete(job, future)
            if self._stopping:
                return None
            goal = self._running = self._queue.pop()
            assert goal is not None
            return lambda: self._serve(goal)


def _complete(job: Callable[[], Any], future: Future[Any]) -> None:
    try:
        future.set_result(job())
    except Exception as error:
        future.set_exception(error)
