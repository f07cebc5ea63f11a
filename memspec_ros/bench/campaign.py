# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Many goals under several strategies, in turn, in a folder that a broken run goes on from."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memspec_ros.bench.real_time import GoalKey, RealTimeBench
from memspec_ros.bench.record import GoalRecord, RecordFile
from memspec_ros.bench.result_file import write_json
from memspec_ros.bench.strategies import Strategy
from memspec_ros.bench.workloads import BenchPrompt, Workload
from memspec_ros.errors import ConfigError, DataError
from memspec_ros.training.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Task:
    """One goal under one strategy."""

    strategy: Strategy
    key: GoalKey

    @property
    def record_key(self) -> tuple[str, str, str, int]:
        """What its record is known by."""
        return self.strategy.name, self.key.workload, self.key.prompt.id, self.key.run


def in_turn(strategies: Sequence[Strategy], workloads: Sequence[Workload], num_runs: int,
            *, wanted: Callable[[Strategy, str], bool] = lambda *_: True) -> Iterator[Task]:
    """Yield the tasks: run by run, a prompt of each workload in turn, all strategies on it.

    What slows the machine for a while so slows all strategies alike. Which one begins changes
    from prompt to prompt.

    :param wanted: whether a strategy is measured on a workload.
    """
    for run in range(num_runs):
        for index in range(max((len(workload.prompts) for workload in workloads), default=0)):
            for workload in workloads:
                chosen = [one for one in strategies if wanted(one, workload.name)]
                if index < len(workload.prompts) and chosen:
                    first = (run + index) % len(chosen)
                    key = GoalKey(workload=workload.name, prompt=workload.prompts[index], run=run)
                    for strategy in (*chosen[first:], *chosen[:first]):
                        yield Task(strategy=strategy, key=key)


class Campaign:
    """Measures tasks and keeps their records.

    :param folder: of the records; made if it is not there.
    :param job: what the records depend on; a folder of another job is refused.
    :raises ConfigError: the folder holds measurements of another job, and what differs.
    """

    def __init__(self, folder: Path, job: Mapping[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        check_job(folder / 'job.json', job)
        self._file = RecordFile(folder / 'records.jsonl')

    @property
    def records(self) -> list[GoalRecord]:
        """All that was measured, in this run and before."""
        return self._file.records

    def run(self, tasks: Sequence[Task], measure: Callable[[Task], GoalRecord], *,
            label: str) -> None:
        """Measure what is missing."""
        missing = [task for task in tasks if not self._file.has(task.record_key)]
        with Progress(len(tasks), label, unit='goals',
                      done=len(tasks) - len(missing)) as progress:
            for task in missing:
                self._file.add(measure(task))
                progress.add(1, f'{task.key.workload} {task.strategy.name} run {task.key.run}')

    def of(self, tasks: Sequence[Task]) -> list[GoalRecord]:
        """Return the records of some tasks, as far as they were measured."""
        wanted = {task.record_key for task in tasks}
        return [record for record in self.records if record.key in wanted]


def check_job(path: Path, job: Mapping[str, Any]) -> None:
    """Note what a folder's measurements depend on, or compare with what was noted.

    :raises ConfigError: it differs, and in what.
    :raises DataError: the note cannot be read.
    """
    noted = json.loads(json.dumps(dict(job)))
    if not path.is_file():
        write_json(path, noted)
        return
    try:
        known = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise DataError(f'{path} cannot be read: {error}') from error
    differing = [name for name in noted if known.get(name) != noted[name]]
    if differing:
        name = differing[0]
        raise ConfigError(
            f'{path.parent} holds measurements with {name} {known.get(name)!r}; this run has '
            f'{noted[name]!r}: give another --output, or --restart to measure anew')


def warm_up(bench: RealTimeBench, tasks: Sequence[Task], num_goals: int = 2) -> None:
    """Run some goals that do not count, so that the first that does finds a warm machine."""
    for task in [task for task in tasks if not task.strategy.needs_table][:num_goals]:
        bench.run(task.strategy, task.key)


def fitting(workload: Workload, bench: RealTimeBench, num_prompts: int) -> tuple[Workload, int]:
    """Return a workload's first prompts that fit the context, and how many did not."""
    kept: list[BenchPrompt] = []
    num_left_out = 0
    for prompt in workload.prompts:
        if len(kept) == num_prompts:
            break
        if bench.fits(prompt):
            kept.append(prompt)
        else:
            num_left_out += 1
    return Workload(name=workload.name, prompts=tuple(kept)), num_left_out


@contextlib.contextmanager
def stop_signals() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that what was measured is summed up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
