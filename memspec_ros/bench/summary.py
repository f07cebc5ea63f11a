# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From measured goals to the figures that are reported."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memspec_ros.bench.record import GoalRecord

Table = dict[str, dict[str, float]]
SHARES = ('desired', 'fallback', 'prediction', 'load_wait')


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Figures by strategy and workload.

    tokens_per_s: tokens over steady-state decode time, all prompts and runs of a workload;
    gmean: geometric mean of it over workloads; shares: of decode time, over all workloads;
    end_to_end_s: mean seconds of a goal, prompt processing and first load included;
    num_different: goals whose output differs from the reference strategy's.
    """

    tokens_per_s: Table
    gmean: dict[str, float]
    shares: Table
    committed_per_iteration: Table
    end_to_end_s: Table
    num_different: dict[str, int]
    num_goals: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """Return the figures, rounded for reading."""
        return {name: _rounded(value) for name, value in vars(self).items()}


def summarise(records: Sequence[GoalRecord], *, reference: str = 'plain') -> Summary:
    """Return the figures of some records.

    :param reference: the strategy whose output the others' is compared with.
    """
    strategies = list(dict.fromkeys(record.strategy for record in records))
    by_strategy = {name: [record for record in records if record.strategy == name]
                   for name in strategies}
    expected = {(record.workload, record.prompt): record.output
                for record in by_strategy.get(reference, [])}
    tokens_per_s = _table(by_strategy, _tokens_per_s)
    return Summary(
        tokens_per_s=tokens_per_s,
        gmean={name: gmean(row.values()) for name, row in tokens_per_s.items()},
        shares={name: _shares(own) for name, own in by_strategy.items()},
        committed_per_iteration=_table(by_strategy, lambda own: _ratio(
            sum(record.num_tokens for record in own),
            sum(record.num_iterations for record in own))),
        end_to_end_s=_table(by_strategy, lambda own: _ratio(
            sum(record.prefill_s + record.startup_s + record.decode_s for record in own),
            len(own))),
        num_different={name: sum(_differs(record, expected) for record in own)
                       for name, own in by_strategy.items()},
        num_goals={name: len(own) for name, own in by_strategy.items()})


def gmean(values: Iterable[float]) -> float:
    """Return the geometric mean; 0 when there is none or one is 0."""
    listed = list(values)
    if not listed or min(listed) <= 0:
        return 0.0
    return math.exp(sum(map(math.log, listed)) / len(listed))


def ratios(summary: Summary, base: str) -> dict[str, float]:
    """Return each strategy's throughput over another's, geometric mean over workloads."""
    if base not in summary.gmean or summary.gmean[base] <= 0:
        return {}
    return {name: value / summary.gmean[base] for name, value in summary.gmean.items()}


def _table(by_strategy: Mapping[str, Sequence[GoalRecord]],
           figure: Callable[[Sequence[GoalRecord]], float]) -> Table:
    table: Table = {}
    for name, own in by_strategy.items():
        for workload in dict.fromkeys(record.workload for record in own):
            table.setdefault(name, {})[workload] = figure(
                [record for record in own if record.workload == workload])
    return table


def _tokens_per_s(records: Sequence[GoalRecord]) -> float:
    return _ratio(sum(record.num_tokens for record in records),
                  sum(record.decode_s for record in records))


def _shares(records: Sequence[GoalRecord]) -> dict[str, float]:
    total_s = sum(record.decode_s for record in records)
    return {share: _ratio(sum(getattr(record, f'{share}_s') for record in records), total_s)
            for share in SHARES}


def _differs(record: GoalRecord, expected: Mapping[tuple[str, str], str]) -> bool:
    known = expected.get((record.workload, record.prompt), '')
    return bool(known and record.output and record.output != known)


def _ratio(amount: float, per: float) -> float:
    return amount / per if per else 0.0


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return float(f'{value:.5g}') if isinstance(value, float) else value
