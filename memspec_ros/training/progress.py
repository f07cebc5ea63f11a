# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Progress bars of long jobs: tqdm where it is installed, a line now and then where not."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Counts units of work and shows how long the rest will take.

    :param total: units of the whole job; ``done`` of them were done before.
    :param what: shown before the bar; ``unit`` after the rate.
    """

    def __init__(self, total: int, what: str, *, unit: str, done: int = 0) -> None:
        self._total = total
        self._done = self._start_done = done
        self._what = what
        self._unit = unit
        self._start_s = self._shown_s = time.monotonic()
        self._bar = _bar(total, what, unit, done)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()

    def add(self, units: int, note: str = '') -> None:
        """Count units, with a note about the state of things."""
        self._done += units
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(units)
        elif time.monotonic() - self._shown_s > SECONDS_BETWEEN_LINES:
            self._show(note)

    @property
    def units_per_s(self) -> float:
        """Rate since the start."""
        return (self._done - self._start_done) / max(1e-9, time.monotonic() - self._start_s)

    def _show(self, note: str) -> None:
        self._shown_s = time.monotonic()
        left_s = (self._total - self._done) / max(1e-9, self.units_per_s)
        print(f'{self._what}: {self._done} of {self._total} {self._unit}, {left_s:.0f} s left '
              f'{note}', file=sys.stderr)


def _bar(total: int, what: str, unit: str, done: int) -> Any:
    try:
        from tqdm import tqdm  # type: ignore[import-untyped,unused-ignore]
    except ModuleNotFoundError:
        return None
    return tqdm(total=total, desc=what, unit=f' {unit}', initial=done, dynamic_ncols=True)
