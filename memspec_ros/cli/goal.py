# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One goal through the runtime, in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from memspec_ros.cli.interrupt import Interrupt
from memspec_ros.config import Settings
from memspec_ros.errors import RequestError
from memspec_ros.records import FinishReason, Progress, Request, Result

if TYPE_CHECKING:
    from memspec_ros.runtime.runtime import MemSpecRuntime


def open_runtime(settings: Settings, *, quiet: bool) -> MemSpecRuntime:
    """Load target and drafts, telling each stage on stderr unless ``quiet``."""
    # Here and not above: `memspec --help` must not wait for torch.
    from memspec_ros.runtime.runtime import MemSpecRuntime
    return MemSpecRuntime.open(settings, report=_drop if quiet else _tell)


def answer(runtime: MemSpecRuntime, request: Request, interrupt: Interrupt,
           on_progress: Callable[[Progress], None]) -> Result:
    """Run a goal to its end; one that the runtime refuses comes back as a failed result."""
    def should_stop() -> FinishReason | None:
        return FinishReason.CANCELED if interrupt.requested else None

    try:
        return runtime.generate(runtime.prepare(request), on_progress=on_progress,
                                should_stop=should_stop)
    except RequestError as error:
        return Result(error_code=error.code, error_msg=str(error))


def _tell(line: str) -> None:
    print(f'memspec: {line}', file=sys.stderr)


def _drop(_line: str) -> None:
    pass
