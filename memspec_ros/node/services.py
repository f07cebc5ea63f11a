# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The services ~/runtime_info, ~/count_tokens and ~/reset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from std_srvs.srv import Trigger

import memspec_ros
from memspec_ros.errors import ErrorCode, RequestError
from memspec_ros.node.backend import Runtime
from memspec_ros.node.conversions import chat_from, clean, fill_runtime_info
from memspec_ros.node.goal_server import GoalServer
from memspec_ros.records import Request
from memspec_ros.srv import CountTokens, GetRuntimeInfo


class Services:
    """Answers questions in every lifecycle state. Belongs to the executor thread.

    :param runtime: returns the open runtime, None before configure.
    :param state: returns the lifecycle state's label and why the last transition failed.
    """

    def __init__(self, node: Node, goals: GoalServer, *, runtime: Callable[[], Runtime | None],
                 state: Callable[[], tuple[str, str]]) -> None:
        self._goals = goals
        self._runtime = runtime
        self._state = state
        self._now: Callable[[], Any] = lambda: node.get_clock().now().to_msg()
        node.create_service(GetRuntimeInfo, '~/runtime_info', self._runtime_info)
        node.create_service(CountTokens, '~/count_tokens', self._count_tokens)
        node.create_service(Trigger, '~/reset', self._reset)

    def _runtime_info(self, _request: Any, response: Any) -> Any:
        response.version = memspec_ros.__version__
        response.state, response.last_error = self._state()
        response.last_error = clean(response.last_error)
        response.num_goals_ended = self._goals.num_ended
        response.queue_length = self._goals.decode_thread.num_waiting
        response.queue_capacity = self._goals.decode_thread.queue_capacity
        runtime = self._runtime()
        if runtime is not None:
            fill_runtime_info(response, runtime.info(), runtime.residency(), self._now())
        return response

    def _count_tokens(self, request: Any, response: Any) -> Any:
        try:
            runtime = self._open_runtime()
            response.context_tokens = runtime.info().context_tokens
            response.prompt_tokens = self._count(runtime, request)
        except RequestError as error:
            response.error_code, response.error_msg = int(error.code), clean(str(error))
        except Exception as error:
            response.error_code = int(ErrorCode.INTERNAL)
            response.error_msg = clean(f'{type(error).__name__}: {error}')
        return response

    def _count(self, runtime: Runtime, request: Any) -> int:
        wanted = Request(prompt=request.prompt, raw_prompt=request.raw_prompt,
                         messages=chat_from(request.messages), max_tokens=1)
        if wanted.raw_prompt and wanted.prompt:
            return runtime.count_tokens(wanted.prompt)
        return int(runtime.prepare(wanted).prompt_tokens)

    def _open_runtime(self) -> Runtime:
        runtime = self._runtime()
        if runtime is None:
            raise RequestError(ErrorCode.NOT_ACTIVE,
                               f"no model is loaded: the node is '{self._state()[0]}'")
        return runtime

    def _reset(self, _request: Any, response: Any) -> Any:
        runtime = self._runtime()
        if runtime is None:
            response.message = f"nothing to reset: the node is '{self._state()[0]}'"
            return response
        # Not waited for: a goal may run for minutes, and a callback must return.
        self._goals.decode_thread.call(runtime.reset)
        response.success = True
        response.message = ('the draft cache and the kept prefix are forgotten '
                            + ('when the running goal ends' if self._goals.open_goals else 'now'))
        return response
