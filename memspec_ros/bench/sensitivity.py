# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Figures 10 to 12 in replay: scheduling interval, output length, cache capacity."""

from __future__ import annotations

from collections.abc import Sequence

from memspec_ros.bench import paper
from memspec_ros.bench.chart import Chart, Table
from memspec_ros.bench.figures import OVER_GENERAL, label
from memspec_ros.bench.replayed import ReplayBench
from memspec_ros.bench.strategies import STRATEGIES
from memspec_ros.bench.summary import summarise
from memspec_ros.replay.profile import AGX_ORIN, ORIN_NANO

INTERVALS = (2, 4, 8, 16)
OUTPUT_LENGTHS = (32, 64, 128, 256)
CAPACITIES = (2, 3, 4)


def sensitivity_figures(bench: ReplayBench) -> list[Chart]:
    """Return figures 10 to 12 on this machine's profile and on the Jetsons'."""
    charts = []
    for profile in (bench.profile, ORIN_NANO):
        there = ReplayBench(**{**vars(bench), 'profile': profile})
        charts += [_interval(there), _output_length(there)]
    agx = ReplayBench(**{**vars(bench), 'profile': AGX_ORIN})
    return [*charts, _capacity(bench), _capacity(agx)]


def rates(bench: ReplayBench, strategies: Sequence[str]) -> dict[str, float]:
    """Return tokens/s over General-Static's, geometric mean over workloads."""
    base = _rate(bench, 'general_static')
    return {name: _rate(bench, name) / base for name in strategies}


def _rate(bench: ReplayBench, strategy: str) -> float:
    return summarise(bench.run(STRATEGIES[strategy])).gmean[strategy]


def _interval(bench: ReplayBench) -> Chart:
    names = ('memspec', 'memspec_online')
    swept = {str(interval): rates(bench.with_settings(scheduling_interval=interval), names)
             for interval in INTERVALS}
    return Chart(name='figure 10', title=f'Scheduling interval N ({bench.profile.name}, replay)',
                 kind='lines', unit=OVER_GENERAL, ours=_by_series(swept, names),
                 note=paper.NOTES['figure 10'])


def _output_length(bench: ReplayBench) -> Chart:
    names = ('memspec', 'memspec_online', 'mab_async')
    longest = max(table.num_tokens for table in bench.tables)
    swept = {str(length): rates(bench.with_output(length), names)
             for length in OUTPUT_LENGTHS if length <= longest}
    return Chart(name='figure 11', title=f'Output length ({bench.profile.name}, replay)',
                 kind='lines', unit=OVER_GENERAL, ours=_by_series(swept, names),
                 note=paper.NOTES['figure 11'])


def _capacity(bench: ReplayBench) -> Chart:
    names = ('mab_async', 'memspec')
    swept = {str(capacity): rates(bench.with_settings(cache_capacity=capacity), names)
             for capacity in CAPACITIES if capacity <= len(bench.drafts)}
    return Chart(name='figure 12', title=f'Cache capacity K ({bench.profile.name}, replay)',
                 kind='lines', unit=OVER_GENERAL, ours=_by_series(swept, names),
                 paper={label(name): row for name, row in paper.CAPACITY.items()})


def _by_series(swept: dict[str, dict[str, float]], names: Sequence[str]) -> Table:
    return {label(name): {at: row[name] for at, row in swept.items()} for name in names}
