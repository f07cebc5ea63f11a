# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Lifecycle transitions in a thread of their own, so that a load does not block the node."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from lifecycle_msgs.msg import Transition
from rclpy.lifecycle import LifecycleNodeMixin, TransitionCallbackReturn
from rclpy.task import Future

from memspec_ros.node.outbox import Outbox

NAMES = {
    Transition.TRANSITION_CONFIGURE: 'configure', Transition.TRANSITION_CLEANUP: 'cleanup',
    Transition.TRANSITION_ACTIVATE: 'activate', Transition.TRANSITION_DEACTIVATE: 'deactivate',
    Transition.TRANSITION_UNCONFIGURED_SHUTDOWN: 'shutdown',
    Transition.TRANSITION_INACTIVE_SHUTDOWN: 'shutdown',
    Transition.TRANSITION_ACTIVE_SHUTDOWN: 'shutdown'}
FROM_STATES = {
    'configure': ('unconfigured',), 'activate': ('inactive',), 'deactivate': ('active',),
    'cleanup': ('inactive',), 'shutdown': ('unconfigured', 'inactive', 'active')}


class Transitions:
    """Runs one transition at a time; all methods belong to the executor thread.

    The change_state service of rclpy runs a transition in its callback, and one that is not
    possible raises through the executor. Here the callback is a coroutine that waits for a thread.

    :param state: returns the label of the current lifecycle state.
    """

    def __init__(self, node: LifecycleNodeMixin, outbox: Outbox, *,
                 state: Callable[[], str]) -> None:
        self._node = node
        self._logger = node.get_logger()
        self._outbox = outbox
        self._state = state
        self._thread: threading.Thread | None = None
        node._service_change_state.callback = self._on_change_state

    async def _on_change_state(self, request: Any, response: Any) -> Any:
        name = request.transition.label or NAMES.get(request.transition.id,
                                                     f'id {request.transition.id}')
        response.success = await self.run(name)
        return response

    async def run(self, name: str) -> bool:
        """Run a transition; whether it succeeded."""
        problem = self._problem(name)
        if problem:
            self._logger.error(f"transition '{name}' refused: {problem}")
            return False
        done = Future()
        self._thread = threading.Thread(target=self._run, args=(name, done), name='transition',
                                        daemon=True)
        self._thread.start()
        return bool(await done)

    def _problem(self, name: str) -> str:
        if name not in FROM_STATES:
            return f'it must be one of {", ".join(FROM_STATES)}'
        if self._thread is not None:
            return f"another transition is under way, the node is '{self._state()}'"
        if self._state() not in FROM_STATES[name]:
            return f"the node is '{self._state()}', not '{' or '.join(FROM_STATES[name])}'"
        return ''

    def _run(self, name: str, done: Future) -> None:
        try:
            result = getattr(self._node, f'trigger_{name}')()
            success = result == TransitionCallbackReturn.SUCCESS
        except Exception as error:
            self._logger.error(f"transition '{name}': {type(error).__name__}: {error}")
            success = False
        self._outbox.post(lambda: self._end(done, success))

    def _end(self, done: Future, success: bool) -> None:
        self._thread = None
        done.set_result(success)
