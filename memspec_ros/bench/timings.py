# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the parts of iterations took, as sums; from them replay's device profile is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from memspec_ros.boundaries import IterationOutcome

Sum = list[float]
"""Count and seconds."""


@dataclass(kw_only=True)
class Timings:
    """Counts and seconds, apart for iterations during which a draft was being loaded.

    target, target_loading: passes by width; steps: draft steps by draft; switches: iterations
    that began with a catch-up, by draft (count, draft seconds, steps); overhead: what iterations
    took beside passes and steps; loads: by draft, those that ended while a goal was decoded.
    """

    target: dict[str, Sum] = field(default_factory=dict)
    target_loading: dict[str, Sum] = field(default_factory=dict)
    steps: dict[str, Sum] = field(default_factory=dict)
    switches: dict[str, Sum] = field(default_factory=dict)
    overhead: dict[str, Sum] = field(default_factory=dict)
    loads: dict[str, Sum] = field(default_factory=dict)

    def add_load(self, draft: str, seconds: float) -> None:
        """Count a load."""
        _add(self.loads, draft, 1, seconds)

    def add(self, outcome: IterationOutcome, seconds: float, *, loading: bool,
            switched: bool) -> None:
        """Count an iteration that took ``seconds``, controller included."""
        passes = self.target_loading if loading else self.target
        _add(passes, str(outcome.num_drafted + 1), 1, outcome.target_s)
        if loading:
            return
        _add(self.overhead, 'all', 1, seconds - outcome.target_s - outcome.draft_s)
        if not outcome.num_drafted:
            return
        if switched:
            _add(self.switches, outcome.draft, 1, outcome.draft_s, outcome.num_drafted)
        else:
            _add(self.steps, outcome.draft, outcome.num_drafted, outcome.draft_s)


def sum_of_timings(parts: Iterable[Timings]) -> Timings:
    """Return the sums of several goals together."""
    total = Timings()
    for part in parts:
        for item in fields(Timings):
            sums = getattr(total, item.name)
            for name, values in getattr(part, item.name).items():
                _add(sums, name, *values)
    return total


def mean(sums: dict[str, Sum], name: str, otherwise: float = 0.0) -> float:
    """Return the mean seconds of one kind."""
    values = sums.get(name)
    return values[1] / values[0] if values and values[0] else otherwise


def _add(sums: dict[str, Sum], name: str, *values: float) -> None:
    kept = sums.setdefault(name, [0.0] * len(values))
    for index, value in enumerate(values):
        kept[index] += value
