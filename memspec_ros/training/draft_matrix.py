# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The matrix that a pool must justify: committed tokens per iteration, draft by domain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memspec_ros.errors import DependencyError
from memspec_ros.replay.acceptance_table import AcceptanceTable, TracedGoal


@dataclass(frozen=True, kw_only=True)
class DraftMatrix:
    """Committed tokens per iteration at one draft length; ``prompts`` per domain."""

    draft_length: int
    prompts: Mapping[str, int]
    committed: Mapping[str, Mapping[str, float]]
    num_bytes: Mapping[str, int]
    domains_of: Mapping[str, str]

    @classmethod
    def from_table(cls, table: AcceptanceTable, draft_length: int = 3) -> DraftMatrix:
        """Count what running each draft alone over each goal would commit."""
        domains = sorted({goal.domain for goal in table.goals})
        of_domain = {domain: [g for g in table.goals if g.domain == domain]
                     for domain in domains}
        return cls(
            draft_length=draft_length,
            prompts={domain: len(goals) for domain, goals in of_domain.items()},
            num_bytes={name: draft.num_bytes for name, draft in table.drafts.items()},
            domains_of={name: draft.domain for name, draft in table.drafts.items()},
            committed={name: {domain: committed_per_iteration(goals, name, draft_length)
                              for domain, goals in of_domain.items()}
                       for name in table.drafts})

    def gain(self, general: str) -> float:
        """Geometric mean over specialists of their gain on their own domain; nan without any."""
        gains = [self.committed[name][domain] / self.committed[general][domain]
                 for name, domain in self.domains_of.items()
                 if name != general and domain in self.prompts]
        return geometric_mean(gains)

    def rows(self) -> list[str]:
        """The matrix as lines of text."""
        domains = list(self.prompts)
        lines = [f'{"draft":14}{"MB":>6}  ' + ''.join(f'{domain:>10}' for domain in domains)
                 + f'{"gmean":>10}']
        for name, values in self.committed.items():
            cells = ''.join(f'{values[domain]:9.2f}'
                            + ('*' if self.domains_of[name] == domain else ' ')
                            for domain in domains)
            mean = geometric_mean(list(values.values()))
            lines.append(f'{name:14}{self.num_bytes[name] / 1e6:6.1f}  {cells}{mean:10.2f}')
        return lines

    def document(self, **more: Any) -> dict[str, Any]:
        """The matrix as results/draft_matrix.json has it."""
        return {'gamma': self.draft_length, 'prompts': dict(self.prompts),
                'committed_per_iteration': {name: {d: round(v, 4) for d, v in values.items()}
                                            for name, values in self.committed.items()},
                'bytes': dict(self.num_bytes), **more}

    def draw(self, path: Path) -> None:
        """Draw the matrix as an image.

        :raises DependencyError: matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure  # type: ignore[import-not-found,unused-ignore]
        except ModuleNotFoundError as error:
            raise DependencyError('drawing needs matplotlib: pip install matplotlib') from error
        names, domains = list(self.committed), list(self.prompts)
        values = [[self.committed[name][domain] for domain in domains] for name in names]
        figure = Figure(figsize=(1.2 + 1.1 * len(domains), 1.2 + 0.5 * len(names)))
        axes = figure.subplots()
        axes.imshow(values, cmap='viridis', aspect='auto')
        axes.set_xticks(range(len(domains)), domains)
        axes.set_yticks(range(len(names)), names)
        for row, line in enumerate(values):
            for column, value in enumerate(line):
                axes.text(column, row, f'{value:.2f}', ha='center', va='center', color='white')
        axes.set_title(f'tokens committed per iteration, {self.draft_length} drafted')
        figure.savefig(path, bbox_inches='tight', dpi=150)


def committed_per_iteration(goals: Sequence[TracedGoal], draft: str, draft_length: int) -> float:
    """Tokens per iteration when one draft runs alone, as the real loop counts them.

    The end token takes part in an iteration but is not a token committed.
    """
    tokens = iterations = 0
    for goal in goals:
        tokens += len(goal.output_ids)
        iterations += num_iterations(goal, draft, draft_length)
    return tokens / iterations if iterations else 0.0


def num_iterations(goal: TracedGoal, draft: str, draft_length: int) -> int:
    """Iterations of one goal with one draft."""
    position = count = 0
    # An output that ended has one more token to verify: the end token.
    stop = len(goal.output_ids) + goal.ended
    runs = goal.runs[draft]
    while position < stop:
        run = runs[position] if position < len(runs) else 0
        position += min(run, draft_length) + 1
        count += 1
    return count


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive numbers; nan of none."""
    if not values or min(values) <= 0.0:
        return math.nan
    return math.exp(sum(map(math.log, values)) / len(values))
