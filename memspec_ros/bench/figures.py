# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The paper's figures from a measurement: 1 to 4 and 6 to 9 from what was counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memspec_ros.bench import paper
from memspec_ros.bench.chart import Chart, Table
from memspec_ros.bench.record import GoalRecord
from memspec_ros.bench.strategies import STRATEGIES
from memspec_ros.bench.summary import SHARES, Summary, gmean
from memspec_ros.replay.profile import DeviceProfile

OVER_GENERAL = 'over General-Static'
GMEAN = 'GMEAN'


def measured_figures(summary: Summary, profile: DeviceProfile, draft_length: int,
                     records: Sequence[GoalRecord]) -> list[Chart]:
    """Return the figures that the measured goals give; those without their strategies are not."""
    charts = [
        _acceptance('figure 1', 'Static and dynamic selection: committed tokens per iteration',
                    summary, ('general_static', 'oracle_static', 'oracle_dynamic')),
        _switching(profile, draft_length),
        _acceptance('figure 3', 'Committed tokens per iteration of exploration', summary,
                    ('general_static', 'oracle_static', 'mab_sync', 'mab_async')),
        _breakdown('figure 4', 'Execution time of exploration', records,
                   ('general_static', 'oracle_static', 'mab_sync', 'mab_async')),
        _throughput('figure 6', 'Steady-state throughput', summary,
                    ('general_static', 'oracle_static', 'mab_async', 'memspec',
                     'memspec_online', 'oracle_dynamic')),
        _breakdown('figure 7', 'Execution time of MAB-Async and MemSpec', records,
                   ('mab_async', 'memspec', 'memspec_online')),
        _throughput('figure 8', 'Components', summary,
                    ('general_static', 'prediction_only', 'memspec')),
        _breakdown('figure 9', 'Execution time of the components', records,
                   ('general_static', 'prediction_only', 'memspec'))]
    return [chart for chart in charts if chart.ours]


def label(strategy: str) -> str:
    """Return a strategy's name as the paper writes it."""
    return STRATEGIES[strategy].label if strategy in STRATEGIES else strategy


def over_general(table: Table, strategies: Iterable[str]) -> Table:
    """Return figures over General-Static's, by strategy and workload, with their mean."""
    base = table.get('general_static', {})
    ratios: Table = {}
    for name in strategies:
        row = {workload: value / base[workload] for workload, value in table.get(name, {}).items()
               if base.get(workload)}
        if row:
            ratios[label(name)] = {**row, GMEAN: gmean(row.values())}
    return ratios


def _stated(values: dict[str, float], strategies: Iterable[str]) -> Table:
    return {label(name): {GMEAN: values[name]} for name in strategies if name in values}


def _acceptance(name: str, title: str, summary: Summary, strategies: Sequence[str]) -> Chart:
    return Chart(name=name, title=title, kind='bars', unit=OVER_GENERAL,
                 ours=over_general(summary.committed_per_iteration, strategies),
                 paper=_stated(paper.ACCEPTANCE_OVER_GENERAL, strategies),
                 note=paper.NOTES.get(name, ''))


def _throughput(name: str, title: str, summary: Summary, strategies: Sequence[str]) -> Chart:
    return Chart(name=name, title=title, kind='bars', unit=OVER_GENERAL,
                 ours=over_general(summary.tokens_per_s, strategies),
                 paper=_stated(paper.THROUGHPUT_OVER_GENERAL, strategies),
                 note=paper.NOTES.get(name, ''))


def _switching(profile: DeviceProfile, draft_length: int) -> Chart:
    draft = next((name for name in profile.draft_step_s if name not in ('', 'ngram')), '')
    iteration_s = profile.iteration_s(draft, draft_length)
    catch_up_s = profile.missed_s(draft, 0)
    ours = {'iteration': 1.0, 'switch, resident': catch_up_s / iteration_s,
            'switch, not resident': (profile.load_of(draft) + catch_up_s) / iteration_s}
    return Chart(name='figure 2', title='An iteration against a switch', kind='bars',
                 unit='iterations', ours={'seconds in iterations': ours},
                 paper={'seconds in iterations': {
                     'iteration': 1.0, 'switch, not resident': paper.LOAD_ITERATIONS}},
                 note=f'one iteration takes {1e3 * iteration_s:.1f} ms here')


def _breakdown(name: str, title: str, records: Sequence[GoalRecord],
               strategies: Sequence[str]) -> Chart:
    """Decode time by part, over the time of the first strategy: shorter is faster."""
    seconds: dict[str, dict[str, float]] = {}
    for strategy in strategies:
        own = [record for record in records if record.strategy == strategy]
        if own:
            seconds[strategy] = {share: sum(getattr(record, f'{share}_s') for record in own)
                                 / len(own) for share in SHARES}
    if strategies[0] not in seconds:
        return Chart(name=name, title=title, kind='stacked', unit='', ours={})
    base = sum(seconds[strategies[0]].values())
    return Chart(
        name=name, title=title, kind='stacked', unit=f'time over {label(strategies[0])}',
        ours={share: {label(strategy): parts[share] / base
                      for strategy, parts in seconds.items()} for share in SHARES},
        paper={share: stated for share in SHARES if (stated := {
            label(strategy): paper.SHARES[strategy][share] for strategy in strategies
            if share in paper.SHARES.get(strategy, {})})},
        note="the paper's panel: shares of each strategy's own time, from its text")
