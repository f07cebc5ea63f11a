# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The traces of a measurement, kept in one trace file that grows."""

from __future__ import annotations

from pathlib import Path

from memspec_ros.bench.real_time import GoalKey, RealTimeBench
from memspec_ros.bench.replayed import cut
from memspec_ros.errors import DataError
from memspec_ros.replay.acceptance_table import (
    AcceptanceTable,
    TracedDraft,
    TracedGoal,
    read_acceptance_table,
)
from memspec_ros.replay.goal_table import GoalTable

GOALS_BETWEEN_SAVES = 25


class TraceFile:
    """Goals traced by the serving models; what is in the file is not traced again.

    :raises DataError: the file is damaged, or of another target or draft length.
    """

    def __init__(self, path: Path, bench: RealTimeBench) -> None:
        self._path = path
        self._bench = bench
        goals = _read(path, bench) if path.is_file() else ()
        self.goals: dict[tuple[str, str], TracedGoal] = {
            (goal.domain, goal.id): goal for goal in goals}
        self._num_saved = len(self.goals)

    def has(self, key: GoalKey) -> bool:
        """Whether a goal is traced."""
        return (key.workload, key.prompt.id) in self.goals

    def add(self, goal: TracedGoal) -> None:
        """Take a goal in; now and then the file is written."""
        self.goals[goal.domain, goal.id] = goal
        if len(self.goals) - self._num_saved >= GOALS_BETWEEN_SAVES:
            self.save()

    def save(self) -> None:
        """Write all goals."""
        if self.goals:
            self.acceptance_table().write(self._path)
            self._num_saved = len(self.goals)

    def table(self, key: GoalKey) -> GoalTable:
        """Return a goal's table as replay and the oracles take it, cut at the bench's limit.

        KeyError when it is not traced.
        """
        goal = self.goals[key.workload, key.prompt.id]
        return cut(self.acceptance_table(goal).goal_tables()[0], self._bench.max_tokens)

    def acceptance_table(self, *goals: TracedGoal) -> AcceptanceTable:
        """Return some goals, or all of them, as a table."""
        return AcceptanceTable(
            goals=goals or tuple(self.goals.values()), target=self._bench.assembly.target_checksum,
            steps=self._bench.unroll, max_tokens=self._bench.trace_tokens,
            drafts={draft.name: TracedDraft(domain=draft.domain, num_bytes=draft.num_bytes)
                    for draft in self._bench.drafts})


def _read(path: Path, bench: RealTimeBench) -> tuple[TracedGoal, ...]:
    table = read_acceptance_table(path, target=bench.assembly.target_checksum)
    if (table.steps, table.max_tokens) != (bench.unroll, bench.trace_tokens):
        raise DataError(f'trace {path} has {table.steps} steps and answers of '
                        f'{table.max_tokens} tokens; this run has {bench.unroll} and '
                        f'{bench.trace_tokens}: give another --output, or --restart')
    return table.goals
