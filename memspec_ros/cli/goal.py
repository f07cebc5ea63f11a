# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One goal through the runtime, in this process."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from memspec_ros.cli.interrupt import Interrupt
from memspec_ros.config import Settings
from memspec_ros.errors import RequestError
from memspec_ros.records import FinishReason, Progress, Request, Result

if TYPE_CHECKING:
    from memspec_ros.runtime.runtime import MemSpecRuntime


def open_runtime(settings: Settings, *, verbose: bool) -> MemSpecRuntime:
    """Load target and drafts, telling each stage on stderr if ``verbose``."""
    # Here and not above: `memspec --help` must not wait for torch.
    from memspec_ros.runtime.runtime import MemSpecRuntime
    return MemSpecRuntime.open(settings, report=_tell if verbose else _drop)


def answer(runtime: MemSpecRuntime, request: Request, interrupt: Interrupt,
           on_progress: Callable[[Progress], None]) -> Result:
    """Run a goal to its end; one that the runtime refuses comes back as a failed result."""
    deadline_s = time.monotonic() + request.timeout_s if request.timeout_s else math.inf

    def should_stop() -> FinishReason | None:
        if interrupt.requested:
            return FinishReason.CANCELED
        return FinishReason.TIMEOUT if time.monotonic() >= deadline_s else None

    try:
        result = runtime.generate(runtime.prepare(request), on_progress=on_progress,
                                  should_stop=should_stop)
    except RequestError as error:
        return Result(error_code=error.code, error_msg=str(error))
    return dataclasses.replace(result, error_msg=result.error_msg or stop_message(result, request))


def stop_message(result: Result, request: Request) -> str:
    """Say why a goal was stopped from here; nothing when it was not."""
    return {FinishReason.CANCELED: 'interrupted by a signal',
            FinishReason.TIMEOUT: f'the timeout of {request.timeout_s:g} s has passed'
            }.get(result.finish_reason, '')


def _tell(line: str) -> None:
    print(f'memspec: {line}', file=sys.stderr)


def _drop(_line: str) -> None:
    pass
