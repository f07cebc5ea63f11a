# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From goals that rows decoded to medians, spreads and ratios of rows."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memspec_ros.bench.details import iteration_parts, load_warning
from memspec_ros.bench.record import GoalRecord
from memspec_ros.bench.summary import Table, gmean

OURS = 'ours_'
PLAIN = 'ours_plain'
BEST = 'ours_memspec_online'
BASE = 'llama_cpp_plain'


def figures_of(records: Sequence[GoalRecord], about: Mapping[str, Any],
               command: str) -> dict[str, Any]:
    """Return what results/peers.json holds.

    :param about: ``config``, ``why_absent`` and ``peak_rss_bytes``.
    """
    runs = rates_of(records)
    medians = {row: {domain: statistics.median(rates) for domain, rates in domains.items()}
               for row, domains in runs.items()}
    return {
        'config': about['config'], 'command': command, 'tokens_per_s': medians,
        'ratios': ratios_of(medians), 'absent': sorted(about['why_absent']),
        'details': {
            'why_absent': about['why_absent'], 'peak_rss_bytes': about['peak_rss_bytes'],
            'iteration_parts': iteration_parts(records),
            'spread': {row: {domain: [min(rates), max(rates)]
                             for domain, rates in domains.items()}
                       for row, domains in runs.items()},
            'gmean': {row: gmean(domains.values()) for row, domains in medians.items()},
            'prompt_tokens_per_s': _per_row(records, 'num_prompt_tokens', 'prefill_s'),
            'first_token_s': _first_token_s(records),
            'outputs_differing_from_ours_plain': _num_different(records)}}


def rates_of(records: Sequence[GoalRecord]) -> dict[str, dict[str, list[float]]]:
    """Return tokens/s of each run, by row and domain."""
    sums: dict[tuple[str, str, int], list[float]] = {}
    for record in records:
        both = sums.setdefault((record.strategy, record.workload, record.run), [0.0, 0.0])
        both[0] += record.num_tokens
        both[1] += record.wall_decode_s
    rates: dict[str, dict[str, list[float]]] = {}
    for (row, domain, _), (num_tokens, seconds) in sums.items():
        rates.setdefault(row, {}).setdefault(domain, []).append(
            num_tokens / seconds if seconds else 0.0)
    return rates


def ratios_of(medians: Table) -> dict[str, float]:
    """Return ratios of rows: geometric means over the domains that both have."""
    peers = [row for row in medians if not row.startswith(OURS)]
    best_peer = max(peers, key=lambda row: gmean(medians[row].values()), default='')
    pairs = {'plain_over_llama_cpp': (PLAIN, BASE), 'best_over_llama_cpp': (BEST, BASE),
             'best_over_best_peer': (BEST, best_peer), 'best_over_plain': (BEST, PLAIN)}
    return {name: gmean(medians[over][domain] / medians[base][domain]
                        for domain in medians[over] if medians[base].get(domain))
            for name, (over, base) in pairs.items() if over in medians and base in medians}


def _per_row(records: Sequence[GoalRecord], amount: str, per: str) -> dict[str, float]:
    rates = {}
    for row in dict.fromkeys(record.strategy for record in records):
        own = [record for record in records if record.strategy == row]
        seconds = sum(getattr(record, per) for record in own)
        rates[row] = sum(getattr(record, amount) for record in own) / seconds if seconds else 0.0
    return rates


def _first_token_s(records: Sequence[GoalRecord]) -> dict[str, float]:
    return {row: statistics.median(record.first_token_s for record in records
                                   if record.strategy == row)
            for row in dict.fromkeys(record.strategy for record in records)}


def _num_different(records: Sequence[GoalRecord]) -> dict[str, list[int]]:
    """Return how many of how many outputs differ from our plain greedy ones, by row."""
    plain = {(record.workload, record.prompt): record.output for record in records
             if record.strategy == PLAIN}
    counts: dict[str, list[int]] = {}
    for record in records:
        expected = plain.get((record.workload, record.prompt))
        if expected is not None:
            both = counts.setdefault(record.strategy, [0, 0])
            both[0] += record.output != expected
            both[1] += 1
    return counts


def lines_of(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table that is printed."""
    rates, means = document['tokens_per_s'], document['details']['gmean']
    domains = list(dict.fromkeys(name for row in rates.values() for name in row))
    yield f'{"tokens/s, medians":28}' + ''.join(f'{name[:9]:>10}' for name in domains) + \
        f'{"gmean":>10}'
    for row, values in rates.items():
        yield f'{row:28}' + ''.join(f'{values.get(name, 0):10.1f}' for name in domains) + \
            f'{means[row]:10.1f}'
    for row, reason in document['details']['why_absent'].items():
        yield f'{row:28}absent: {reason}'
    if warning := load_warning(document['config']):
        yield warning
    yield '; '.join(f'{name} {value:.3f}' for name, value in document['ratios'].items())
