# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A goal as its client sees it, fed by the test in the place of the server."""

import asyncio
import threading
import types

import pytest
from action_msgs.msg import GoalStatus

from memspec_ros.action import Generate
from memspec_ros.client import Generation, ServerLostError
from memspec_ros.records import FinishReason, Request

SUCCEEDED = GoalStatus.STATUS_SUCCEEDED


class Bench:
    def __init__(self, on_progress=None):
        self.seen, self.cancels = [], []
        self.generation = Generation(
            Request(prompt='a'), on_progress=on_progress or self.seen.append,
            request_cancel=self.cancels.append)

    def feed(self, seq, text):
        self.generation.take_feedback(Generate.Feedback(
            state=Generate.Feedback.STATE_DECODE, seq=seq, delta_text=text))

    def end(self, text, status=SUCCEEDED):
        self.generation.take_result(types.SimpleNamespace(
            status=status, result=Generate.Result(
                text=text, finish_reason=Generate.Result.FINISH_STOP)))

    @property
    def text(self):
        return ''.join(progress.delta_text for progress in self.seen)


@pytest.fixture
def bench():
    return Bench()


def test_deltas_and_result(bench):
    bench.feed(0, 'one ')
    bench.feed(1, 'two')
    assert not bench.generation.done()
    bench.end('one two')
    assert bench.generation.result(0).finish_reason is FinishReason.STOP
    assert list(bench.generation.deltas()) == ['one two']
    assert (bench.text, bench.generation.num_lost_feedback) == ('one two', 0)
    assert bench.generation.status == SUCCEEDED


def test_deltas_wait_for_the_text(bench):
    deltas = bench.generation.deltas()
    feeder = threading.Thread(target=lambda: (bench.feed(0, 'one '), bench.feed(1, 'two'),
                                              bench.end('one two')))
    feeder.start()
    assert ''.join(deltas) == 'one two'
    feeder.join()


def test_text_after_lost_feedback_comes_with_the_result(bench):
    bench.feed(0, 'one ')
    bench.feed(2, 'three ')
    assert bench.text == 'one '
    bench.feed(3, 'four')
    bench.end('one two three four')
    assert bench.text == 'one two three four'
    assert ''.join(bench.generation.deltas()) == 'one two three four'
    assert bench.generation.num_lost_feedback == 1


def test_a_result_that_overtakes_the_last_feedback(bench):
    bench.feed(0, 'one ')
    bench.end('one two')
    bench.feed(1, 'two')
    assert bench.text == 'one two'


def test_cancel_before_the_server_has_answered(bench):
    bench.generation.cancel()
    assert bench.cancels == []
    assert bench.generation.take_handle('handle')


def test_cancel_afterwards(bench):
    assert not bench.generation.take_handle('handle')
    bench.generation.cancel()
    assert bench.cancels == ['handle']
    bench.end('')
    bench.generation.cancel()
    assert bench.cancels == ['handle']


def test_a_goal_that_the_server_does_not_know_is_lost(bench):
    bench.feed(0, 'one ')
    bench.end('', status=GoalStatus.STATUS_UNKNOWN)
    with pytest.raises(ServerLostError, match='does not know the goal'):
        bench.generation.result(0)
    deltas = bench.generation.deltas()
    assert next(deltas) == 'one '
    with pytest.raises(ServerLostError):
        next(deltas)


def test_a_callback_that_raises_is_the_senders_error():
    def fail(_progress):
        raise ValueError('display is off')

    bench = Bench(on_progress=fail)
    bench.generation.take_handle('handle')
    bench.feed(0, 'one ')
    with pytest.raises(ValueError, match='display is off'):
        bench.generation.result(0)


def test_no_result_in_time(bench):
    with pytest.raises(TimeoutError, match='no result after 0'):
        bench.generation.result(0)


def test_done_callbacks(bench):
    done = []
    bench.generation.add_done_callback(done.append)
    bench.end('')
    assert done == [bench.generation]


def test_under_asyncio(bench):
    async def use():
        deltas = []
        async for delta in bench.generation.stream():
            deltas.append(delta)
        return ''.join(deltas), (await bench.generation).text

    async def main():
        using = asyncio.create_task(use())
        await asyncio.sleep(0)
        feeder = threading.Thread(target=lambda: (bench.feed(0, 'one '), bench.end('one two')))
        feeder.start()
        return await using

    assert asyncio.run(main()) == ('one two', 'one two')


def test_an_event_loop_that_was_closed_does_not_disturb(bench):
    async def begin():
        bench.feed(0, 'one ')
        async for _ in bench.generation.stream():
            break

    asyncio.run(begin())
    bench.feed(1, 'two')
    bench.end('one two')
    assert bench.text == 'one two'


def test_in_a_coroutine_of_rclpy(bench):
    async def use():
        return (await bench.generation).text

    coroutine = use()
    coroutine.send(None)
    bench.end('one')
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    assert ended.value.value == 'one'
