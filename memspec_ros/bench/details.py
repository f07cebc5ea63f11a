# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The result of an evaluation as its file has it, and as it is printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memspec_ros.bench.record import GoalRecord
from memspec_ros.bench.result_file import rounded
from memspec_ros.bench.summary import Summary, ratios
from memspec_ros.bench.timings import Sum, sum_of_timings
from memspec_ros.replay.profile import DeviceProfile

BASES = ('general_static', 'mab_async', 'oracle_dynamic', 'oracle_all', 'plain')
TRUSTED_SHARE_OF_OTHERS = 0.05
COUNTS = ('num_loads', 'num_evictions', 'num_wasted_prefetches', 'num_switches', 'hit_rate')


def result_of(summary: Summary, *, config: Mapping[str, Any], command: str,
              details: Mapping[str, Any]) -> dict[str, Any]:
    """Return what results/regime_e.json holds."""
    return dict(rounded({
        'config': dict(config), 'command': command, 'tokens_per_s': summary.tokens_per_s,
        'gmean': summary.gmean, 'shares': summary.shares,
        'committed_per_iteration': summary.committed_per_iteration, 'details': dict(details)}))


def details_of(summary: Summary, records: Sequence[GoalRecord],
               profile: DeviceProfile | None = None) -> dict[str, Any]:
    """Return what else was measured: ratios, latency, loads, stalls, outputs that differ."""
    details: dict[str, Any] = {f'over_{base}': ratios(summary, base) for base in BASES
                               if base in summary.gmean}
    details.update(
        end_to_end_s=summary.end_to_end_s, num_different=summary.num_different,
        num_goals=summary.num_goals, per_goal=_per_goal(records), stalls=_stalls(records),
        iteration_parts=iteration_parts(records),
        unaccounted_share=_unaccounted_share(records))
    if profile is not None:
        details['latencies_s'] = latencies_s(profile, records)
    return details


def latencies_s(profile: DeviceProfile, records: Sequence[GoalRecord]) -> dict[str, float]:
    """Return an iteration, a switch to a resident draft and one to an absent draft (figure 2)."""
    own = [record for record in records if record.strategy == 'general_static']
    iterations = sum(record.num_iterations for record in own)
    catch_up_s = profile.catch_up_s[0]
    return {'iteration': sum(record.decode_s for record in own) / iterations if iterations
            else 0.0, 'resident_switch': catch_up_s,
            'absent_switch': profile.load_of('') + catch_up_s}


def iteration_parts(records: Sequence[GoalRecord]) -> dict[str, dict[str, float]]:
    """Return shares of decoding by strategy: target passes, drafting, bookkeeping, scheduling."""
    shares = {}
    for strategy, own in by_strategy(records):
        timings = sum_of_timings(record.timings for record in own)
        decode_s = sum(record.decode_s for record in own)
        seconds = {'target': _total_s(timings.target),
                   'drafting': _total_s(timings.steps) + _total_s(timings.switches),
                   'bookkeeping': _total_s(timings.overhead)}
        in_iterations_s = sum(seconds.values())
        if in_iterations_s and decode_s:
            scheduling = sum(record.prediction_s for record in own) / decode_s
            shares[strategy] = {**{name: (1 - scheduling) * part_s / in_iterations_s
                                   for name, part_s in seconds.items()},
                                'scheduling': scheduling}
    return shares


def _total_s(sums: Mapping[str, Sum]) -> float:
    return sum(values[1] for values in sums.values())


def _per_goal(records: Sequence[GoalRecord]) -> dict[str, dict[str, float]]:
    """Return means per goal of what is counted, by strategy."""
    return {strategy: {name: sum(getattr(record, name) for record in own) / len(own)
                       for name in COUNTS} for strategy, own in by_strategy(records)}


def _stalls(records: Sequence[GoalRecord]) -> dict[str, dict[str, float]]:
    """Return how iterations during loads compare with their goal's median without loads."""
    stalls = {}
    for strategy, own in by_strategy(records):
        found = [record.stalls for record in own if record.stalls.num_loading]
        if found:
            num_loading = sum(stall.num_loading for stall in found)
            stalls[strategy] = {
                'worst_over_median': max(stall.worst_s / stall.median_s for stall in found),
                'share_over_1_25_medians': sum(stall.num_slow for stall in found) / num_loading,
                'iterations_during_loads': num_loading}
    return stalls


def _unaccounted_share(records: Sequence[GoalRecord]) -> float:
    """Return the share of the decode time that is in no part, start-up counted as one."""
    wall_s = sum(record.wall_decode_s for record in records)
    known_s = sum(record.startup_s + record.decode_s for record in records)
    return (wall_s - known_s) / wall_s if wall_s else 0.0


def by_strategy(records: Sequence[GoalRecord]) -> Iterator[tuple[str, list[GoalRecord]]]:
    """Yield strategies with their records."""
    for strategy in dict.fromkeys(record.strategy for record in records):
        yield strategy, [record for record in records if record.strategy == strategy]


def table_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table that is printed: a line per strategy."""
    workloads = list(dict.fromkeys(name for row in document['tokens_per_s'].values()
                                   for name in row))
    details = document['details']
    over = details.get('over_general_static', {})
    yield f'{"tokens/s":24}' + ''.join(f'{name[:9]:>10}' for name in workloads) + \
        f'{"gmean":>10}{"/general":>9}{"desired":>8}{"fallback":>9}{"predict":>8}' \
        f'{"wait":>7}{"tok/it":>7}  differing'
    for name, row in document['tokens_per_s'].items():
        shares = document['shares'][name]
        committed = document['committed_per_iteration'][name].values()
        yield f'{name:24}' + ''.join(f'{row.get(workload, 0):10.1f}' for workload in workloads) \
            + f'{document["gmean"][name]:10.1f}{over.get(name, 0):9.3f}' \
            f'{shares["desired"]:8.3f}{shares["fallback"]:9.3f}{shares["prediction"]:8.4f}' \
            f'{shares["load_wait"]:7.3f}{sum(committed) / max(1, len(committed)):7.2f}' \
            f'{details["num_different"][name]:5d} of {details["num_goals"][name]}'
    yield from _conclusions(document['gmean'])
    if warning := load_warning(document['config']):
        yield warning
    if not document['config'].get('complete', True):
        yield 'not complete: the same command goes on from here'


def _conclusions(rates: Mapping[str, float]) -> Iterator[str]:
    """Yield the ratios that the paper states, and the ceiling that the oracle sets."""
    for over in ('memspec', 'memspec_online', 'oracle_dynamic'):
        found = [f'{rates[over] / rates[base]:.3f}x {base}' for base in BASES
                 if rates.get(base) and base != over] if rates.get(over) else []
        if found:
            yield f'{over}: {", ".join(found)}'


def load_warning(config: Mapping[str, Any]) -> str:
    """Return what to say where other programs took part of the processors; '' where none did."""
    share = config.get('load', {}).get('share_of_others', 0.0)
    return '' if share <= TRUSTED_SHARE_OF_OTHERS else \
        f'other programs took {100 * share:.0f} % of the processors: these figures are noisy'
