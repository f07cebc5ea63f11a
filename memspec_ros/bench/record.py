# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One measured goal, and the file of them: JSON lines, so a broken run goes on where it ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memspec_ros.bench.iteration_log import Stalls
from memspec_ros.bench.timings import Timings
from memspec_ros.errors import DataError
from memspec_ros.runtime.metrics import GoalMetrics

Key = tuple[str, str, str, int]


@dataclass(frozen=True, kw_only=True)
class GoalRecord:
    """What one goal came to under one strategy.

    The four parts sum to the decode time, which leaves start-up out (the first prediction and
    the load of d_0). ``wall_decode_s`` is all that follows the prompt's processing. ``output``
    identifies the tokens. Replayed goals have no ``timings`` and no wall time.
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
    first_token_s: float = 0.0
    num_prompt_tokens: int = 0
    num_points: int = 0
    num_switches: int = 0
    num_loads: int = 0
    num_evictions: int = 0
    num_wasted_prefetches: int = 0
    hit_rate: float = 0.0
    output: str = ''
    timings: Timings = field(default_factory=Timings)
    stalls: Stalls = field(default_factory=Stalls)

    @property
    def key(self) -> Key:
        """What was measured: strategy, workload, prompt and run."""
        return self.strategy, self.workload, self.prompt, self.run

    @property
    def decode_s(self) -> float:
        """Steady-state decode time, without start-up."""
        return self.desired_s + self.fallback_s + self.prediction_s + self.load_wait_s

    @classmethod
    def of(cls, metrics: GoalMetrics, *, strategy: str, workload: str, prompt: str, run: int,
           **more: Any) -> GoalRecord:
        """Make a record from what the runtime counted; ``more`` are further fields."""
        return cls(
            strategy=strategy, workload=workload, prompt=prompt, run=run,
            num_tokens=metrics.num_committed, num_iterations=metrics.num_iterations,
            num_drafted=metrics.num_drafted, num_accepted=metrics.num_accepted,
            desired_s=metrics.time.desired_s, fallback_s=metrics.time.fallback_s,
            prediction_s=metrics.time.prediction_s, load_wait_s=metrics.time.load_wait_s,
            startup_s=metrics.startup_prediction_s + metrics.startup_load_wait_s,
            num_points=metrics.num_points, num_switches=metrics.num_switches,
            hit_rate=metrics.hit_rate, **more)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> GoalRecord:
        """Read what :func:`dataclasses.asdict` gave."""
        timings, stalls = values.pop('timings', {}), values.pop('stalls', {})
        return cls(timings=Timings(**timings), stalls=Stalls(**stalls), **values)


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

    def has(self, key: Key) -> bool:
        """Whether this was measured."""
        return key in self._known

    def add(self, record: GoalRecord) -> None:
        """Append a record; a killed process does not lose it."""
        with self._path.open('a', encoding='utf-8') as file:
            file.write(json.dumps(asdict(record)) + '\n')
        self.records.append(record)
        self._known.add(record.key)


def _read(path: Path) -> list[GoalRecord]:
    lines: Sequence[str] = path.read_text(encoding='utf-8').split('\n')
    try:
        # A line that a kill cut short is the last one and is measured again.
        whole = lines[:-1]
        records = [GoalRecord.from_json(json.loads(line)) for line in whole if line]
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f'{path} holds no measurements of this version: {error}') from error
    if lines[-1]:
        path.write_text('\n'.join(whole) + ('\n' if whole else ''), encoding='utf-8')
    return records
