# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The boundary between the node and what decodes.

The node sees a runtime only through :class:`Runtime`; its fake is
:class:`memspec_ros.testing.fake_runtime.FakeRuntime`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from memspec_ros.config import Settings
from memspec_ros.errors import ErrorCode
from memspec_ros.records import (
    FinishReason,
    Progress,
    Request,
    Residency,
    Result,
    RuntimeInfo,
    Throughput,
)


class PreparedRequest(Protocol):
    """A request that was tokenised and fits; what else it holds is the runtime's business."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt under the chat template."""


class InterruptedGoal(PreparedRequest, Protocol):
    """A goal that gave up its turn; whoever has it may resume or end it."""

    def end(self, reason: FinishReason, code: ErrorCode, message: str) -> Result:
        """Return the result of a goal that is not resumed, with the text that it has."""


class Runtime(Protocol):
    """What serves goals: target, drafts, tokenizer, memory.

    ``advance``, ``relieve``, ``reset`` and ``close`` belong to the decode thread; everything else
    may be called from any thread and returns soon.
    """

    def prepare(self, request: Request) -> Any:
        """Tokenise and check; returns a :class:`PreparedRequest`.

        :raises RequestError: with the action's code, and a message with the numbers.
        """

    def advance(self, work: Any, *, on_progress: Callable[[Progress], None],
                should_stop: Callable[[], FinishReason | None],
                should_yield: Callable[[], bool]) -> Any:
        """Answer a prepared request, or go on with an interrupted goal.

        ``on_progress`` is called as text comes; the joined deltas are the result's text.
        ``should_stop`` is asked at least once per iteration and per chunk of the prompt, and what
        it answers becomes the result's finish reason. Where ``should_yield`` then says yes the
        goal is interrupted.

        :returns: a :class:`~memspec_ros.records.Result`, or an :class:`InterruptedGoal`, which
            another call takes in the place of the request.
        """

    def count_tokens(self, text: str) -> int:
        """Tokens of a literal text."""

    def info(self) -> RuntimeInfo:
        """What was opened."""

    def residency(self) -> Residency:
        """Which drafts are in memory now."""

    def throughput(self) -> Throughput:
        """Running figures."""

    def apply(self, settings: Settings) -> None:
        """Take over the dynamic parameters at the next scheduling point.

        :raises ConfigError, BudgetError: a value that it cannot take; nothing was changed.
        """

    def limit_capacity(self, capacity: int | None, reason: str) -> None:
        """Bound K because memory is short, soon; None lifts the bound."""

    def relieve(self) -> None:
        """Evict now what the bound on K leaves no room for."""

    def reset(self) -> None:
        """Forget the draft cache and the prefix of the last goal."""

    def close(self) -> None:
        """Free the memory; no other call follows."""


OpenRuntime = Callable[..., Runtime]
"""``open(settings, report=callable)``: blocks, and tells each stage with its size through
``report``. Raises ConfigError, ModelError, BudgetError or DependencyError."""


def open_runtime(settings: Settings, *, report: Callable[[str], None]) -> Runtime:
    """Open the real runtime."""
    # Here and not above: the node is up and answers before torch has been imported, and a torch
    # that is missing is a failed configure instead of a process that does not start.
    from memspec_ros.runtime.runtime import MemSpecRuntime
    runtime: Runtime = MemSpecRuntime.open(settings, report=report)
    return runtime
