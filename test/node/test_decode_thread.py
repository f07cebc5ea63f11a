# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The thread that serves goals and runs jobs."""

import threading

import pytest

from memspec_ros.errors import RequestError
from memspec_ros.node.decode_thread import DecodeThread

LIMIT_S = 30


class Goal:
    def __init__(self, number, priority=0):
        self.number, self.priority = number, priority


class Served:
    """Serves goals one by one, as the test allows."""

    def __init__(self):
        self.order = []
        self.began = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.thread = DecodeThread(serve=self.serve, queue_capacity=2)

    def serve(self, goal):
        self.order.append(goal.number)
        self.began.release()
        assert self.may_end.acquire(timeout=LIMIT_S)


@pytest.fixture
def served():
    served = Served()
    served.thread.start()
    yield served
    served.thread.stop()
    for _ in range(10):
        served.may_end.release()
    assert served.thread.join(LIMIT_S)


def test_one_runs_the_others_wait_in_order(served):
    served.thread.submit(Goal(0))
    assert served.began.acquire(timeout=LIMIT_S)
    low, high = Goal(1), Goal(2, priority=1)
    served.thread.submit(low)
    served.thread.submit(high)
    seen = []
    served.thread.visit_waiting(lambda goal, position: seen.append((goal, position)))
    assert seen == [(high, 1), (low, 2)]
    assert served.thread.num_waiting == 2
    with pytest.raises(RequestError, match='2 goals wait'):
        served.thread.submit(Goal(3))
    served.may_end.release(3)
    assert all(served.began.acquire(timeout=LIMIT_S) for _ in range(2))
    assert served.order == [0, 2, 1]


def test_withdraw_takes_a_waiting_goal_and_no_other(served):
    running, waiting = Goal(0), Goal(1)
    served.thread.submit(running)
    assert served.began.acquire(timeout=LIMIT_S)
    served.thread.submit(waiting)
    assert served.thread.withdraw(waiting)
    assert not served.thread.withdraw(waiting)
    assert not served.thread.withdraw(running)
    served.may_end.release()
    assert served.thread.call(lambda: 'idle').result(LIMIT_S) == 'idle'
    assert served.order == [0]


def test_a_job_runs_before_the_next_goal_in_the_same_thread(served):
    served.thread.submit(Goal(0))
    assert served.began.acquire(timeout=LIMIT_S)
    served.thread.submit(Goal(1))
    future = served.thread.call(
        lambda: (tuple(served.order), threading.current_thread().name))
    assert not future.done()
    served.may_end.release(2)
    assert future.result(LIMIT_S) == ((0,), 'decode')
    assert served.began.acquire(timeout=LIMIT_S)


def test_a_job_that_raises_tells_its_caller_and_nobody_else(served):
    def fail():
        raise ValueError('no such file')

    with pytest.raises(ValueError, match='no such file'):
        served.thread.call(fail).result(LIMIT_S)
    assert served.thread.call(lambda: 1).result(LIMIT_S) == 1


def test_join_says_when_it_is_still_busy(served):
    served.thread.submit(Goal(0))
    assert served.began.acquire(timeout=LIMIT_S)
    served.thread.submit(Goal(1))
    served.thread.stop()
    assert not served.thread.join(0.01)
    served.may_end.release()
    assert served.thread.join(LIMIT_S)
    assert served.order == [0]
    assert served.thread.num_waiting == 1


def test_what_a_job_held_is_free_when_it_is_done(served):
    freed = threading.Event()

    class Model:
        def __del__(self):
            freed.set()

        def close(self):
            pass

    served.thread.call(Model().close).result(LIMIT_S)
    assert freed.wait(LIMIT_S)
