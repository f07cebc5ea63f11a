# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One goal as its client sees it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from action_msgs.msg import GoalStatus
from unique_identifier_msgs.msg import UUID

from memspec_ros.errors import MemSpecError
from memspec_ros.node.conversions import progress_from_message, result_from_message
from memspec_ros.records import GoalState, Progress, Request, Result


class ServerLostError(MemSpecError):
    """No node serves the action, or the one that took the goal has left."""


class Generation:
    """A goal that was sent: its text as it comes, its result, and the way to cancel it.

    Feedback may be lost on the way. The deltas seen here still join to the result's text: from the
    first gap on they are held back, and what is missing follows with the result.

    :param request: what was asked for.
    :param on_progress: called in the executor thread.
    :param request_cancel: sends the cancel of a goal handle.
    """

    def __init__(self, request: Request, *, on_progress: Callable[[Progress], None] | None,
                 request_cancel: Callable[[Any], None]) -> None:
        self.request = request
        self.goal_id = UUID(uuid=list(os.urandom(16)))
        self._on_progress = on_progress
        self._request_cancel = request_cancel
        self._future: Future[Result] = Future()
        self._listeners: list[Callable[[str | None], object]] = []
        self._lock = threading.Lock()
        self.handle: Any = None
        self.last_news_s = 0.0
        self._cancel_wanted = False
        self._next_seq = 0
        self._text = ''
        self.num_lost_feedback = 0
        self.queue_position = 0
        self.status = int(GoalStatus.STATUS_UNKNOWN)

    # For whoever sent the goal.

    def done(self) -> bool:
        """Whether the result is there, or the server was lost."""
        return self._future.done()

    def result(self, timeout_s: float | None = None) -> Result:
        """Wait for the result; not for callbacks of the executor that this client uses.

        :raises ServerLostError: the server has left; nobody knows how the goal ended.
        :raises TimeoutError: it took longer than ``timeout_s``; the goal goes on.
        """
        try:
            return self._future.result(timeout_s)
        except FutureTimeoutError as error:
            raise TimeoutError(f'no result after {timeout_s} s') from error

    def add_done_callback(self, callback: Callable[[Generation], None]) -> None:
        """Have ``callback`` called with this, in the executor thread, when it is done."""
        self._future.add_done_callback(lambda _: callback(self))

    def cancel(self) -> None:
        """Ask the server to end the goal; its result then says CANCELED. Any thread; no wait."""
        with self._lock:
            self._cancel_wanted = True
            handle = self.handle
        if handle is not None and not self.done():
            self._request_cancel(handle)

    def deltas(self) -> Iterator[str]:
        """Yield the text as it comes, waiting for it; not for callbacks.

        :raises ServerLostError: after what had come.
        """
        deltas: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._listen(deltas.put)
        while (delta := deltas.get()) is not None:
            yield delta
        self._future.result()

    async def stream(self) -> AsyncIterator[str]:
        """Yield the text as it comes, under asyncio. Raises as :meth:`deltas`."""
        deltas: asyncio.Queue[str | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self._listen(lambda delta: loop.call_soon_threadsafe(deltas.put_nowait, delta))
        while (delta := await deltas.get()) is not None:
            yield delta
        await self

    def __await__(self) -> Generator[Any, None, Result]:
        """Wait under asyncio, or in a coroutine callback of rclpy. Raises as :meth:`result`."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            # rclpy resumes a coroutine whenever its executor wakes, and the result wakes it.
            while not self._future.done():
                yield
            return self._future.result()
        return (yield from asyncio.wrap_future(self._future).__await__())

    # For the client, in the executor thread.

    def take_handle(self, handle: Any) -> bool:
        """Note that the server has the goal; whether a cancel was asked for before."""
        with self._lock:
            self.handle = handle
            return self._cancel_wanted

    def take_feedback(self, message: Any) -> None:
        """Pass on a feedback message."""
        if self._future.done():
            return
        self.num_lost_feedback += message.seq - self._next_seq
        self._next_seq = message.seq + 1
        self.queue_position = message.queue_position
        if self.num_lost_feedback:
            message.delta_text = ''
        self._pass_on(progress_from_message(message))

    def take_result(self, response: Any) -> None:
        """End with the action's result."""
        if self._future.done():
            return
        self.status = int(response.status)
        if self.status == GoalStatus.STATUS_UNKNOWN:
            self.fail(ServerLostError('the server does not know the goal: it was restarted, or '
                                      'it keeps results for a shorter time'))
            return
        result = result_from_message(response.result)
        missing = result.text[len(self._text):]
        if missing:
            self._pass_on(Progress(state=GoalState.DECODE, delta_text=missing,
                                   completion_tokens=result.completion_tokens))
        if not self._future.done():
            self._future.set_result(result)
            self._tell_listeners(None)

    def fail(self, error: Exception) -> None:
        """End without a result."""
        if not self._future.done():
            self._future.set_exception(error)
            self._tell_listeners(None)

    def _pass_on(self, progress: Progress) -> None:
        if progress.delta_text:
            self._tell_listeners(progress.delta_text)
        if self._on_progress is None:
            return
        try:
            self._on_progress(progress)
        except Exception as error:
            # It would end the executor, and whoever waits for the result would wait forever.
            self.fail(error)
            self.cancel()

    def _listen(self, listener: Callable[[str | None], object]) -> None:
        """Pass all text to a listener, that which has come included; None is the end."""
        with self._lock:
            if self._text:
                listener(self._text)
            if self._future.done():
                listener(None)
            self._listeners.append(listener)

    def _tell_listeners(self, delta: str | None) -> None:
        with self._lock:
            self._text += delta or ''
            for listener in self._listeners:
                # An event loop that was closed does not listen any more.
                with contextlib.suppress(RuntimeError):
                    listener(delta)
