# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The goals that wait: strict priority, then arrival, and no more than fit."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from memspec_ros.errors import ErrorCode, RequestError


class Queued(Protocol):
    """What the queue orders by; ``number`` counts arrivals."""

    @property
    def priority(self) -> int:
        """Higher is served first."""

    @property
    def number(self) -> int:
        """Lower came first; no two are equal."""


Goal = TypeVar('Goal', bound=Queued)


class GoalQueue(Generic[Goal]):
    """A bounded priority queue. Not thread-safe: its owner, the decode thread, has the lock."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._goals: list[Goal] = []

    def __len__(self) -> int:
        return len(self._goals)

    def __iter__(self) -> Iterator[Goal]:
        """Yield the goals in the order in which they will be served."""
        return iter(self._goals)

    def put(self, goal: Goal) -> None:
        """Insert a goal behind those of its priority.

        :raises RequestError: QUEUE_FULL.
        """
        if len(self._goals) >= self.capacity:
            raise RequestError(
                ErrorCode.QUEUE_FULL, f'{len(self._goals)} goals wait already, and '
                f'server.queue_capacity is {self.capacity}: send the goal again later')
        self.put_back(goal)

    def put_back(self, goal: Goal) -> None:
        """Insert a goal that had left the queue, full or not: it came before what came later."""
        bisect.insort(self._goals, goal, key=_rank)

    def outranks(self, goal: Goal) -> bool:
        """Whether a goal waits whose priority is higher than this one's."""
        return bool(self._goals) and self._goals[0].priority > goal.priority

    def pop(self) -> Goal | None:
        """Take the goal that is served next."""
        return self._goals.pop(0) if self._goals else None

    def remove(self, goal: Goal) -> bool:
        """Take a goal out; False when it does not wait (any more)."""
        if goal not in self._goals:
            return False
        self._goals.remove(goal)
        return True


def _rank(goal: Queued) -> tuple[int, int]:
    return -goal.priority, goal.number
