# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The queue of goals."""

from collections import namedtuple

import pytest

from memspec_ros.errors import ErrorCode, RequestError
from memspec_ros.node.goal_queue import GoalQueue

Goal = namedtuple('Goal', 'number priority', defaults=[0])


def test_priority_then_arrival():
    queue = GoalQueue(10)
    goals = [Goal(0), Goal(1, 5), Goal(2), Goal(3, 5), Goal(4, -1)]
    for goal in goals:
        queue.put(goal)
    assert [goal.number for goal in queue] == [1, 3, 0, 2, 4]
    assert [queue.pop().number for _ in goals] == [1, 3, 0, 2, 4]
    assert queue.pop() is None


def test_a_goal_that_comes_back_keeps_its_place():
    queue = GoalQueue(10)
    for goal in (Goal(0), Goal(1), Goal(2)):
        queue.put(goal)
    first = queue.pop()
    queue.put(first)
    assert queue.pop() is first


def test_full():
    queue = GoalQueue(2)
    queue.put(Goal(0))
    queue.put(Goal(1))
    with pytest.raises(RequestError, match=r'2 goals wait already.*queue_capacity is 2') as caught:
        queue.put(Goal(2, 9))
    assert caught.value.code is ErrorCode.QUEUE_FULL
    assert len(queue) == 2


def test_remove():
    queue = GoalQueue(2)
    goal = Goal(0)
    queue.put(goal)
    assert queue.remove(goal)
    assert not queue.remove(goal)
    assert len(queue) == 0


def test_a_goal_is_put_back_before_later_ones_of_its_priority_even_when_full():
    queue = GoalQueue(2)
    for goal in (Goal(1), Goal(2)):
        queue.put(goal)
    queue.put_back(Goal(0))
    assert [goal.number for goal in queue] == [0, 1, 2]


def test_outranks():
    queue = GoalQueue(2)
    assert not queue.outranks(Goal(0))
    queue.put(Goal(1, 3))
    assert queue.outranks(Goal(0, 2))
    assert not queue.outranks(Goal(0, 3))
