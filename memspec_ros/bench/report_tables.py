# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of the report, ours beside the paper's."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from memspec_ros.bench import paper
from memspec_ros.bench.figures import Document, label
from memspec_ros.bench.summary import SHARES, gmean

ABSENT = ''


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table."""
    lines = [''.join(f'<th>{html.escape(cell)}</th>' for cell in header)]
    lines += [''.join(f'<td>{html.escape(cell)}</td>' for cell in row) for row in rows]
    return '<table>' + ''.join(f'<tr>{line}</tr>' for line in lines) + '</table>'


def claims(regime: Document) -> str:
    """Return the paper's claims beside ours."""
    ours = our_claims(regime)
    rows = [(name.replace('_', ' '), number(ours.get(name)), number(item['value']),
             item['source']) for name, item in paper.document()['claims'].items()]
    return table(('claim', 'ours', "paper's", 'where it says so'), rows)


def our_claims(regime: Document) -> dict[str, float]:
    """Return what the evaluation has of the paper's claims."""
    rates, shares = regime.get('gmean', {}), regime.get('shares', {})
    latency = regime.get('details', {}).get('end_to_end_s', {})
    found: dict[str, float] = {}
    for name, over, base in (
            ('memspec_over_general_static', 'memspec', 'general_static'),
            ('memspec_over_mab_async', 'memspec', 'mab_async'),
            ('memspec_share_of_oracle_dynamic', 'memspec', 'oracle_dynamic'),
            ('oracle_dynamic_over_general_static', 'oracle_dynamic', 'general_static')):
        if rates.get(over) and rates.get(base):
            found[name] = rates[over] / rates[base]
    for share in ('fallback', 'prediction'):
        if 'memspec' in shares:
            found[f'memspec_{share}_share'] = shares['memspec'][share]
    for base in ('general_static', 'mab_async'):
        if 'memspec' in latency and base in latency:
            found[f'end_to_end_change_against_{base}'] = gmean(
                latency['memspec'][name] / seconds
                for name, seconds in latency[base].items() if seconds) - 1.0
    return found


def throughput(regime: Document) -> str:
    """Return absolute throughput of every strategy."""
    rates, details = regime['tokens_per_s'], regime.get('details', {})
    workloads = list(dict.fromkeys(name for row in rates.values() for name in row))
    stated = paper.values('throughput_over_general')
    rows = []
    for name, row in rates.items():
        over = {base: details.get(f'over_{base}', {}).get(name)
                for base in ('general_static', 'plain')}
        committed = regime['committed_per_iteration'].get(name, {}).values()
        rows.append((
            label(name), *(number(row.get(workload), 1) for workload in workloads),
            number(regime['gmean'].get(name), 1), number(over['general_static']),
            number(stated.get(name)), number(over['plain']),
            *(number(regime['shares'][name][share]) for share in SHARES),
            number(gmean(committed), 2),
            f'{details.get("num_different", {}).get(name, "?")} of '
            f'{details.get("num_goals", {}).get(name, "?")}'))
    return table(('tokens/s', *workloads, 'GMEAN', 'over General-Static', "paper's",
                  'over plain', *(share.replace('_', ' ') for share in SHARES),
                  'tokens per iteration', 'outputs unlike plain'), rows)


def hardware(config: Document) -> str:
    """Return table 1."""
    machine, versions = config.get('machine', {}), config.get('versions', {})
    ours = {'Platform': config.get('platform', ABSENT), 'GPU': machine.get('gpu', 'none'),
            'CPU': f'{machine.get("num_cpus", "?")} x {machine.get("cpu", "?")} '
            f'({machine.get("cpu_capability", "?")})',
            'Memory': f'{config["memory_gb"]:.1f} GB' if 'memory_gb' in config else ABSENT}
    rows = [(name, str(ours.get(name, ABSENT)), text)
            for name, text in paper.document()['hardware'].items()]
    rows.append(('Software', ', '.join(f'{name} {version}' for name, version in versions.items()
                                       if version != 'absent'), 'PyTorch 2.9.1, JetPack 6.2.1'))
    return table(('', 'ours', "paper's"), rows)


def predictors(quality: Document) -> str:
    """Return table 2."""
    stated = paper.values('predictor')
    rows = [(kind, inputs, number(row.get('top1')), number(row.get('top2')),
             number(stated.get(inputs, {}).get('top1')),
             number(stated.get(inputs, {}).get('top2')))
            for kind, by_input in quality.items() if isinstance(by_input, Mapping)
            for inputs, row in by_input.items()
            if isinstance(row, Mapping) and 'top1' in row]
    return table(('predictor', 'input', 'top-1', 'top-2', "paper's top-1", "paper's top-2"), rows)


def agreement(ratios: Document) -> str:
    """Return how replay compares with real time."""
    return table(('strategy', 'replay over real'),
                 [(label(name), number(value)) for name, value in ratios.items()])


def devices(replay: Document) -> str:
    """Return throughput over General-Static on every device that was replayed."""
    found = replay.get('devices', {})
    strategies = list(dict.fromkeys(name for device in found.values() for name in
                                    device['gmean']))
    return table(('over General-Static, replay', *found), [
        (label(name), *(number(device['over_general_static'].get(name))
                        for device in found.values())) for name in strategies])


def peers(document: Document) -> Iterator[str]:
    """Yield the peers' table, their ratios, and who is absent."""
    rates, details = document['tokens_per_s'], document['details']
    domains = list(dict.fromkeys(name for row in rates.values() for name in row))
    yield table(('tokens/s, median', *domains, 'GMEAN'), [
        (row, *(_with_spread(values.get(domain), details['spread'][row].get(domain))
                for domain in domains), number(details['gmean'][row], 1))
        for row, values in rates.items()])
    yield table(('ratio', 'value'), [(name.replace('_', ' '), number(value))
                                     for name, value in document['ratios'].items()])
    if document['absent']:
        yield table(('absent', 'why'), list(details['why_absent'].items()))


def number(value: Any, digits: int = 3) -> str:
    """Return a number for people, nothing for none."""
    return ABSENT if value is None else f'{value:.{digits}f}'


def _with_spread(median: float | None, spread: Sequence[float] | None) -> str:
    return ABSENT if median is None or not spread else \
        f'{median:.1f} ({spread[0]:.1f} to {spread[1]:.1f})'
