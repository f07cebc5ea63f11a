# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One measured goal, and the file of them: JSON lines, so a broken run goes on where it ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from memspec_ros.errors import DataError
from memspec_ros.runtime.metrics import GoalMetrics


@dataclass(frozen=True, kw_only=True)
class GoalRecord:
    """What one goal came to under one strategy.

    The four parts sum to the decode time. ``output`` identifies the tokens.
    """

    strategy: str
    workload: str
    prompt: str
    run: int
    num_tokens: int
    num_iterations: int
    num_drafted: int
    num_accepted: int
    desired_s: float
    fallback_s: float
    prediction_s: float
    load_wait_s: float
    startup_s: float
    prefill_s: float = 0.0
    wall_decode_s: float = 0.0
    num_points: int = 0
    num_switches: int = 0
    hit_rate: float = 0.0
    output: str = ''

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What was measured: strategy, workload, prompt and run."""
        return self.strategy, self.workload, self.prompt, self.run

    @property
    def decode_s(self) -> float:
        """Steady-state decode time, without start-up."""
        return self.desired_s + self.fallback_s + self.prediction_s + self.load_wait_s

    @classmethod
    def of(cls, metrics: GoalMetrics, *, strategy: str, workload: str, prompt: str, run: int,
           prefill_s: float = 0.0, wall_decode_s: float = 0.0, output: str = '') -> GoalRecord:
        """Make a record from what the runtime counted."""
        return cls(
            strategy=strategy, workload=workload, prompt=prompt, run=run,
            num_tokens=metrics.num_committed, num_iterations=metrics.num_iterations,
            num_drafted=metrics.num_drafted, num_accepted=metrics.num_accepted,
            desired_s=metrics.time.desired_s, fallback_s=metrics.time.fallback_s,
            prediction_s=metrics.time.prediction_s, load_wait_s=metrics.time.load_wait_s,
            startup_s=metrics.startup_prediction_s + metrics.startup_load_wait_s,
            prefill_s=prefill_s, wall_decode_s=wall_decode_s, output=output,
            num_points=metrics.num_points, num_switches=metrics.num_switches,
            hit_rate=metrics.hit_rate)


def digest_of(token_ids: Iterable[int]) -> str:
    """Return what identifies an output: a short hash of its token ids."""
    text = ' '.join(map(str, token_ids))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class RecordFile:
    """Records as JSON lines; what is there already is not measured again.

    :raises DataError: the file is there and holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.records: list[GoalRecord] = _read(path) if path.is_file() else []
        self._known = {record.key for record in self.records}

    def has(self, key: tuple[str, str, str, int]) -> bool:
        """Whether this was measured."""
        return key in self._known

    def add(self, record: GoalRecord) -> None:
        """Append a record; it is on the disk when this returns."""
        self.records.append(record)
        self._known.add(record.key)
        with self._path.open('a', encoding='utf-8') as file:
            file.write(json.dumps(asdict(record)) + '\n')


def _read(path: Path) -> list[GoalRecord]:
    lines: Sequence[str] = path.read_text(encoding='utf-8').split('\n')
    try:
        # A line that a kill cut short is the last one and is measured again.
        whole = lines[:-1]
        records = [GoalRecord(**json.loads(line)) for line in whole if line]
    except (ValueError, TypeError) as error:
        raise DataError(f'{path} holds no measurements of this version: {error}') from error
    if lines[-1]:
        path.write_text('\n'.join(whole) + ('\n' if whole else ''), encoding='utf-8')
    return records
