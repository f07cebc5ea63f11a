# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The paper's figures from result files; one whose numbers are missing is not drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memspec_ros.bench import paper
from memspec_ros.bench.chart import Chart, Table
from memspec_ros.bench.strategies import STRATEGIES
from memspec_ros.bench.summary import SHARES, gmean

Document = Mapping[str, Any]
OVER_GENERAL = 'over General-Static'
GMEAN = 'GMEAN'
BASE = 'general_static'
EXPLORING = (BASE, 'oracle_static', 'mab_sync', 'mab_async')
COMPARED = (BASE, 'oracle_static', 'mab_async', 'memspec', 'memspec_online', 'oracle_dynamic')
COMPONENTS = (BASE, 'prediction_only', 'memspec')
LATENCIES = {'iteration': 'iteration\n(draft and verify)', 'resident_switch':
             'switch to a\nresident draft', 'absent_switch': 'switch to a\ndraft not resident'}


def label(strategy: str) -> str:
    """Return a strategy's name for people."""
    return STRATEGIES[strategy].label if strategy in STRATEGIES else strategy


def measured_figures(regime: Document) -> list[Chart]:
    """Return figures 1 to 4 and 6 to 9 of an evaluation in real time."""
    charts = [
        _over_general('figure 1', 'what selection of drafts could give', regime,
                      (BASE, 'oracle_static', 'oracle_dynamic'), 'committed_per_iteration'),
        _latencies(regime),
        _over_general('figure 3', 'committed tokens of exploration', regime, EXPLORING,
                      'committed_per_iteration'),
        _breakdown('figure 4', 'time of exploration', regime, EXPLORING, 'motivation_shares'),
        _over_general('figure 6', 'steady-state throughput', regime, COMPARED, 'tokens_per_s'),
        _breakdown('figure 7', 'time of MAB-Async and MemSpec', regime,
                   ('mab_async', 'memspec', 'memspec_online'), 'shares'),
        _over_general('figure 8', 'throughput by component', regime, COMPONENTS, 'tokens_per_s'),
        _breakdown('figure 9', 'time by component', regime, COMPONENTS, 'shares')]
    return [chart for chart in charts if chart.ours]


def replayed_figures(replay: Document) -> Iterator[Chart]:
    """Yield figures 10 to 12, per device that was replayed."""
    kinds = (('figure 10', 'scheduling_interval', 'scheduling interval N'),
             ('figure 11', 'output_length', 'output tokens'),
             ('figure 12', 'cache_capacity', 'cache capacity K'))
    for name, key, axis in kinds:
        for device, sweeps in replay.get('sweeps', {}).items():
            swept = {label(strategy): row for strategy, row in sweeps.get(key, {}).items()
                     if strategy != BASE}
            if swept:
                stated = _labelled(paper.values(key)) if key == 'cache_capacity' else {}
                yield Chart(name=name, title=f'{axis}, {device} in replay', kind='lines',
                            unit=OVER_GENERAL, axis=axis, ours=swept, paper=stated,
                            source=paper.sources(key) if stated else '', note=paper.note(name))


def other_figures(matrix: Document, peers: Document) -> Iterator[Chart]:
    """Yield charts that the paper has none of: single drafts by domain, and peers."""
    if matrix.get('committed_per_iteration'):
        yield Chart(name='drafts', title='committed tokens per iteration by draft and domain '
                    f'({matrix.get("gamma", "?")} drafted)', kind='bars', unit='tokens',
                    ours=_by_series(matrix['committed_per_iteration']))
    if matrix.get('tokens_per_s'):
        yield Chart(name='draft speed', title='single drafts by domain', kind='bars',
                    unit='tokens/s', ours=_by_series(matrix['tokens_per_s']))
    if peers.get('tokens_per_s'):
        means = peers['details']['gmean']
        yield Chart(name='peers', title='medians of runs', kind='bars', unit='tokens/s', ours={
            row.replace('_', ' '): {**rates, GMEAN: means[row]}
            for row, rates in peers['tokens_per_s'].items()})


def over_general(table: Mapping[str, Mapping[str, float]], strategies: Sequence[str]) -> Table:
    """Return strategies over General-Static by workload, and their geometric mean."""
    base = table.get(BASE, {})
    ours: Table = {}
    for strategy in strategies:
        row = {workload: value / base[workload]
               for workload, value in table.get(strategy, {}).items() if base.get(workload)}
        if row:
            ours[label(strategy)] = {**row, GMEAN: gmean(row.values())}
    return ours


def _over_general(name: str, title: str, regime: Document, strategies: Sequence[str],
                  key: str) -> Chart:
    section = 'throughput_over_general' if key == 'tokens_per_s' else 'acceptance_over_general'
    stated = paper.values(section)
    return Chart(
        name=name, title=title, kind='bars', ours=over_general(regime.get(key, {}), strategies),
        unit=f'{"tokens/s" if key == "tokens_per_s" else "committed per iteration"}\n'
        f'{OVER_GENERAL}', source=paper.sources(section),
        paper={label(strategy): {GMEAN: stated[strategy]} for strategy in strategies
               if strategy in stated and strategy != BASE})


def _latencies(regime: Document) -> Chart:
    latencies = regime.get('details', {}).get('latencies_s', {})
    iteration_s = latencies.get('iteration', 0.0)
    stated = paper.values('latency_in_iterations')
    ours = {'ours': {shown: latencies[key] / iteration_s for key, shown in LATENCIES.items()}} \
        if iteration_s else {}
    return Chart(name='figure 2', title='an iteration against a switch', kind='bars',
                 unit='iterations', ours=ours, source=paper.sources('latency_in_iterations'),
                 paper={'ours': {shown: stated[key] for key, shown in LATENCIES.items()
                                 if key in stated}},
                 note=f'an iteration takes {1e3 * iteration_s:.2f} ms here')


def _breakdown(name: str, title: str, regime: Document, strategies: Sequence[str],
               section: str) -> Chart:
    """Return decode time by part, over the time of the first strategy: shorter is faster."""
    rates, shares = regime.get('gmean', {}), regime.get('shares', {})
    known = [strategy for strategy in strategies if rates.get(strategy)]
    base = strategies[0]
    if base not in known:
        return Chart(name=name, title=title, kind='stacked', unit='', ours={})
    stated, paper_rates = paper.values(section), paper.values('throughput_over_general')
    totals = {strategy: paper_rates[base] / paper_rates[strategy] for strategy in known
              if strategy in stated}
    return Chart(
        name=name, title=title, kind='stacked', unit=f'time per token\nover {label(base)}',
        source=f'{paper.sources(section)}; heights: {paper.sources("throughput_over_general")}',
        ours={share.replace('_', ' '): {
            label(strategy): shares[strategy][share] * rates[base] / rates[strategy]
            for strategy in known} for share in SHARES},
        paper={share.replace('_', ' '): {
            label(strategy): stated[strategy][share] * total
            for strategy, total in totals.items() if share in stated[strategy]}
            for share in SHARES},
        totals={label(strategy): total for strategy, total in totals.items()})


def _labelled(table: Mapping[str, dict[str, float]]) -> Table:
    return {label(strategy): row for strategy, row in table.items()}


def _by_series(table: Mapping[str, Mapping[str, float]]) -> Table:
    return {label(name) if name in ('plain', 'ngram') else name: dict(row)
            for name, row in table.items()}
