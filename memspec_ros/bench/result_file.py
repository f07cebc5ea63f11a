# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Result files: figures, with the configuration and the command that made them."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from memspec_ros.atomic_file import written_beside
from memspec_ros.errors import DataError

SIGNIFICANT = 5
NUM_CLOCK_TICKS = os.sysconf('SC_CLK_TCK')


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON file, beside and renamed; numbers rounded for reading.

    :raises DataError: the disk refuses it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_beside(path) as file:
        file.write((json.dumps(rounded(document), indent=1) + '\n').encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a result file; {} where there is none.

    :raises DataError: it is no JSON object.
    """
    if not path.is_file():
        return {}
    try:
        document = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise DataError(f'{path} cannot be read: {error}') from error
    if not isinstance(document, dict):
        raise DataError(f'{path} holds no JSON object')
    return document


def rounded(value: Any) -> Any:
    """Return a value with its numbers at five significant digits."""
    if isinstance(value, Mapping):
        return {name: rounded(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(inner) for inner in value]
    return float(f'{value:.{SIGNIFICANT}g}') if isinstance(value, float) else value


def command_line() -> str:
    """Return the command as it was given."""
    return shlex.join(['memspec', *sys.argv[1:]])


class OtherLoad:
    """How much of the processors other programs took while we measured.

    Children that ended count as ours only through ``own_s``.
    """

    def __init__(self) -> None:
        self._began = datetime.now(timezone.utc)
        self._load_average = os.getloadavg()[0]
        self._busy_s, self._total_s = _processor_s()
        self._own_s = _own_s()

    def as_json(self, *, own_s: float = 0.0) -> dict[str, Any]:
        """Return begin and end, load averages, and the others' share of all processors' time.

        :param own_s: processor seconds of children that are still running.
        """
        busy_s, total_s = _processor_s()
        others_s = busy_s - self._busy_s - (_own_s() - self._own_s) - own_s
        return {
            'began_utc': self._began.isoformat(timespec='seconds'),
            'ended_utc': datetime.now(timezone.utc).isoformat(timespec='seconds'),
            'load_average_before': self._load_average, 'load_average_after': os.getloadavg()[0],
            'share_of_others': max(0.0, others_s / max(1e-9, total_s - self._total_s))}


def _own_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _processor_s() -> tuple[float, float]:
    """Return busy and total seconds of all processors since the machine started."""
    with open('/proc/stat', encoding='ascii') as file:
        ticks = [int(field) for field in file.readline().split()[1:9]]
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / NUM_CLOCK_TICKS, sum(ticks) / NUM_CLOCK_TICKS
