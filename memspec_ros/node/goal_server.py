# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The Generate action: takes goals, tells where they stand, and ends each exactly once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

from rclpy.node import Node

from memspec_ros.config import ServerSettings
from memspec_ros.errors import ErrorCode, RequestError
from memspec_ros.node import goal_result
from memspec_ros.node.action_server import QueuedActionServer
from memspec_ros.node.backend import Runtime
from memspec_ros.node.client_watch import ClientTrace, ClientWatch
from memspec_ros.node.conversions import progress_to_message, request_from_goal, result_to_message
from memspec_ros.node.decode_thread import DecodeThread
from memspec_ros.node.feedback_batch import FeedbackBatch
from memspec_ros.node.goal import CANCELED, CLIENT_LOST, Goal, StopOrder
from memspec_ros.node.outbox import Outbox
from memspec_ros.records import FinishReason, GoalState, Progress, Result

ACTION_NAME = 'generate'
"""Relative: a node in namespace /robot serves /robot/generate, whatever the node is called."""


def not_active(state: str) -> RequestError:
    """Return the error of goals that come in another state than active."""
    return RequestError(ErrorCode.NOT_ACTIVE, 'goals are served in the lifecycle state active, '
                        f"and the node is '{state}'")


class GoalServer:
    """Every goal from acceptance to result.

    All methods belong to the executor thread but ``serve``, which is the decode thread's. So
    cancel, timeout, loss of the client, shutdown and success cannot race for a goal: whoever comes
    first ends it, in :meth:`finish`.

    :param settings: returns the current server settings.
    :param on_change: called when a goal was taken or has ended.
    :param on_progress: called in the decode thread with each feedback of a running goal.
    """

    def __init__(self, node: Node, outbox: Outbox, *, settings: Callable[[], ServerSettings],
                 queue_capacity: int, on_change: Callable[[], None],
                 on_progress: Callable[[], None]) -> None:
        self._logger = node.get_logger()
        self._outbox = outbox
        self._settings = settings
        self._on_change = on_change
        self._on_progress = on_progress
        self._open: dict[bytes, Goal] = {}
        self._runtime: Runtime | None = None
        self._num_accepted = 0
        self.num_ended = 0
        self.num_failed = 0
        self.refusal: RequestError | None = not_active('unconfigured')
        self.decode_thread = DecodeThread(serve=self.serve, queue_capacity=queue_capacity)
        self._clients = ClientWatch(node, node.resolve_service_name(ACTION_NAME))
        self._action_server = QueuedActionServer(
            node, ACTION_NAME, trace_client=self._clients.trace, on_accepted=self.accept,
            on_cancel=self.cancel)

    @property
    def open_goals(self) -> Collection[Goal]:
        """Goals that have not ended."""
        return self._open.values()

    def use(self, runtime: Runtime | None) -> None:
        """Serve with this runtime from the next goal on; no goal may be open."""
        self._runtime = runtime

    def accept(self, handle: Any, client: ClientTrace) -> None:
        """Check and queue a goal, or end it at once with the reason."""
        self._num_accepted += 1
        goal = Goal(handle=handle, number=self._num_accepted, client=client)
        self._open[goal.uuid] = goal
        try:
            self._queue(goal)
        except RequestError as error:
            self.finish(goal, goal_result.refused(goal, error))
        except Exception as error:
            self._logger.error(f'goal {goal.name}: {type(error).__name__}: {error}')
            self.finish(goal, goal_result.refused(goal, RequestError(
                ErrorCode.INTERNAL, f'{type(error).__name__}: {error}')))
        else:
            self.tell_positions()
        self._on_change()

    def _queue(self, goal: Goal) -> None:
        if self.refusal is not None:
            raise self.refusal
        assert self._runtime is not None
        goal.request = request_from_goal(goal.handle.request)
        goal.timeout_s = goal.request.timeout_s or self._settings().default_timeout_s
        if self._settings().log_prompts:
            self._logger.info(f'goal {goal.name} asks: {goal.request.prompt!r} '
                              f'{goal.request.messages}')
        goal.prepared = self._runtime.prepare(goal.request)
        self.decode_thread.submit(goal)

    def cancel(self, handle: Any) -> bool:
        """Have a goal end; the action's status says CANCELING until it has."""
        goal = self._open.get(bytes(handle.goal_id.uuid))
        if goal is None:
            return False
        # The status changes after this callback, and only then may the goal be ended.
        self._outbox.post(functools.partial(self.stop, goal, CANCELED))
        return True

    def stop(self, goal: Goal, order: StopOrder) -> None:
        """End a goal early: now if it waits, else as soon as the decode thread asks."""
        if goal.finished:
            return
        goal.order_stop(order)
        self.stop_waiting(goal, order)

    def serve(self, goal: Goal) -> None:
        """Answer a goal; decode thread only.

        Feedback of a running goal is published from here: to wake the executor for each would
        cost more than the message.
        """
        work = goal.start()
        self._outbox.post(functools.partial(self._begin, goal))
        batch = FeedbackBatch(rate_hz=self._settings().feedback_rate_hz,
                              send=functools.partial(self._send_progress, goal))
        try:
            outcome = self._advance(goal, work, batch)
        except Exception as error:
            self._logger.error(f'goal {goal.name}: {goal_result.trace(error)}')
            batch.flush()
            outcome = goal_result.crashed(goal, goal.sent_text, error)
        batch.flush()
        if isinstance(outcome, Result):
            result = goal_result.completed(goal, outcome)
            self._outbox.post(functools.partial(self.finish, goal, result))
        else:
            goal.interrupt(outcome)
            self.decode_thread.put_back(goal)
            self._outbox.post(functools.partial(self._wait_again, goal))

    def _advance(self, goal: Goal, work: Any, batch: FeedbackBatch) -> Any:
        assert self._runtime is not None
        return self._runtime.advance(
            work, on_progress=batch.add, should_stop=goal.should_stop,
            should_yield=lambda: (self._settings().preemption
                                  and self.decode_thread.is_outranked(goal)))

    def _wait_again(self, goal: Goal) -> None:
        """Tell where an interrupted goal stands; one that was to end meanwhile ends now."""
        if goal.stop_order is not None:
            self.stop(goal, goal.stop_order)
        self.tell_positions()

    def _begin(self, goal: Goal) -> None:
        if not goal.finished:
            self._action_server.begin(goal.handle)
        self.tell_positions()

    def _send_progress(self, goal: Goal, progress: Progress) -> None:
        self._send_feedback(goal, progress)
        self._on_progress()

    def _send_feedback(self, goal: Goal, progress: Progress, queue_position: int = 0) -> None:
        """Publish where a goal stands: the executor's while it waits, then the decode thread's."""
        if goal.finished:
            return
        goal.sent_text += progress.delta_text
        goal.num_tokens = progress.completion_tokens
        goal.handle.publish_feedback(progress_to_message(
            progress, seq=goal.num_feedback, queue_position=queue_position))
        goal.num_feedback += 1

    def tell_positions(self) -> None:
        """Tell each waiting goal its place, if that has changed."""
        self.decode_thread.visit_waiting(self._tell_position)

    def _tell_position(self, goal: Goal, position: int) -> None:
        if goal.queue_position != position or goal.num_feedback == 0:
            goal.queue_position = position
            self._send_feedback(goal, Progress(
                state=GoalState.QUEUED, completion_tokens=goal.num_tokens), position)

    def finish(self, goal: Goal, result: Result) -> None:
        """End a goal: the one place where it gets its terminal status and its result."""
        if goal.finished:
            return
        goal.finished = True
        del self._open[goal.uuid]
        self.num_ended += 1
        self.num_failed += result.finish_reason is FinishReason.ERROR
        self._log(goal, result)
        self._action_server.end(goal.handle, result.finish_reason, result_to_message(result))
        self._on_change()

    def watch(self) -> None:
        """End the goals whose time is over in the queue or whose client has left."""
        present = self._clients.update()
        for goal in tuple(self._open.values()):
            if goal.seconds_left <= 0:
                self.stop_waiting(goal, goal.timeout_order('in the queue'))
            elif goal.stop_order is None and self._clients.is_lost(goal.client, present):
                self._lose(goal)

    def _lose(self, goal: Goal) -> None:
        if self._settings().cancel_on_client_loss:
            self.stop(goal, CLIENT_LOST)
        elif not goal.client.reported:
            goal.client.reported = True
            self._logger.warning(f'goal {goal.name}: {CLIENT_LOST.message}; it runs to its end')

    def stop_waiting(self, goal: Goal, order: StopOrder) -> None:
        """End a goal if it waits; the decode thread watches the clock of the one that runs."""
        if not self.decode_thread.withdraw(goal):
            return
        result = goal_result.stopped_in_queue(goal, order)
        if rest := result.text[len(goal.sent_text):]:
            self._send_feedback(goal, Progress(state=GoalState.DECODE, delta_text=rest,
                                               completion_tokens=result.completion_tokens))
        self.finish(goal, result)
        self.tell_positions()

    def stop_all(self, order: StopOrder) -> None:
        """End every goal early."""
        for goal in tuple(self._open.values()):
            self.stop(goal, order)

    def abandon_all(self, order: StopOrder) -> None:
        """End at once what did not stop in time; what it still generates goes nowhere."""
        for goal in tuple(self._open.values()):
            self.finish(goal, goal_result.abandoned(goal, order))

    def _log(self, goal: Goal, result: Result) -> None:
        text = f': {result.text!r}' if self._settings().log_prompts else ''
        line = goal_result.summary(goal, result) + text
        if result.finish_reason in (FinishReason.STOP, FinishReason.LENGTH):
            self._logger.info(line)
        else:
            self._logger.warning(line)
