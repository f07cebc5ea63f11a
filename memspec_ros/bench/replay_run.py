# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The evaluation in replay: this machine and Jetsons, and sweeps over K, N and output length."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memspec_ros.bench.replayed import ReplayBench
from memspec_ros.bench.result_file import command_line, read_json, write_json
from memspec_ros.bench.strategies import STRATEGIES, Strategy
from memspec_ros.bench.summary import gmean, ratios, summarise
from memspec_ros.config import RuntimeSettings
from memspec_ros.errors import ConfigError, DataError
from memspec_ros.prediction.predictor import Predictor, UniformPredictor
from memspec_ros.prediction.predictor_file import PredictorFile
from memspec_ros.prediction.target_state import TargetStateRanker
from memspec_ros.replay.acceptance_table import AcceptanceTable, read_acceptance_table
from memspec_ros.replay.predicted import predicted_tables
from memspec_ros.replay.profile import PROFILES, DeviceProfile
from memspec_ros.runtime.plan import NGRAM_DRAFT, PoolDraft
from memspec_ros.training.progress import Progress

INTERVALS = (2, 4, 8, 16)
OUTPUT_LENGTHS = (64, 128, 256)
CAPACITIES = (2, 3, 4)
SWEPT = ('general_static', 'mab_async', 'memspec', 'memspec_online')
BASE = 'general_static'


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What is replayed, and where the results go.

    :param trace: trace file; ``devices`` names of profiles, or files of them.
    :param predictor: predictor file; None predicts uniformly.
    :param real: result of the real run to compare with, '' compares with none.
    :param max_tokens: output tokens, at most those of the trace.
    """

    trace: Path
    devices: tuple[str, ...]
    result: Path
    predictor: Path | None = None
    real: Path | None = None
    agreement: Path | None = None
    max_tokens: int = 128
    num_prompts: int = 0
    strategies: tuple[Strategy, ...] = tuple(STRATEGIES.values())
    sweeps: bool = True


def run_replay(settings: RuntimeSettings, options: ReplayOptions,
               about: Mapping[str, Any]) -> dict[str, Any]:
    """Replay on every device, sweep, compare with the real run, and write the results.

    :raises DataError: a file cannot be read, or was traced for shorter drafts.
    :raises ConfigError: an unknown device, or a predictor that replay cannot ask.
    """
    table = read_acceptance_table(options.trace)
    settings = replace(settings, max_draft_length=min(settings.max_draft_length, table.steps))
    bench = make_bench(table, settings, options)
    devices: dict[str, Any] = {}
    sweeps: dict[str, Any] = {}
    for name in options.devices:
        there = replace(bench, profile=open_profile(name))
        devices[there.profile.name] = _evaluate(there.with_output(options.max_tokens),
                                                options.strategies)
        if options.sweeps:
            sweeps[there.profile.name] = sweep(there, options.max_tokens, table.max_tokens)
    document = {'config': {**about, **_config(settings, options, table)},
                'command': command_line(), 'devices': devices, 'sweeps': sweeps}
    write_json(options.result, document)
    if options.real:
        _compare(options, next(iter(devices.values())))
    return document


def make_bench(table: AcceptanceTable, settings: RuntimeSettings,
               options: ReplayOptions) -> ReplayBench:
    """Return the goals of a trace with a predictor's answers, ready to be replayed."""
    drafts = [PoolDraft(name=name, domain=draft.domain, num_bytes=draft.num_bytes)
              for name, draft in table.drafts.items() if name != NGRAM_DRAFT]
    names = [draft.name for draft in drafts]
    if options.num_prompts:
        table = replace(table, goals=tuple(_first_of_each(table, options.num_prompts)))
    tables = table.goal_tables() if options.predictor is None else list(predicted_tables(
        table, _open_predictor(options.predictor, table), settings.recent_tokens))
    return ReplayBench(tables=tables, drafts=drafts, profile=open_profile('orin_nano'),
                       predictor=UniformPredictor(names),
                       settings=replace(settings, reset_per_goal=True))


def open_profile(name: str) -> DeviceProfile:
    """Return a device profile by name, or of a file.

    :raises ConfigError: neither.
    """
    if name in PROFILES:
        return PROFILES[name]
    if not Path(name).is_file():
        raise ConfigError(f"device '{name}' is no file and none of {', '.join(PROFILES)}")
    return DeviceProfile.load(Path(name))


def sweep(bench: ReplayBench, max_tokens: int, longest: int) -> dict[str, Any]:
    """Return throughput over General-Static by scheduling interval, output length and capacity.

    :param longest: output tokens of the trace; longer outputs are left out.
    """
    short = bench.with_output(max_tokens)
    points: dict[str, dict[int, Callable[[], ReplayBench]]] = {
        'scheduling_interval': {at: lambda at=at: short.with_settings(  # type: ignore[misc]
            scheduling_interval=at) for at in INTERVALS},
        'output_length': {at: lambda at=at: bench.with_output(at)  # type: ignore[misc]
                          for at in OUTPUT_LENGTHS if at <= longest},
        'cache_capacity': {at: lambda at=at: short.with_settings(  # type: ignore[misc]
            cache_capacity=at) for at in CAPACITIES if at <= len(bench.drafts)}}
    swept: dict[str, Any] = {name: {} for name in points}
    with Progress(sum(map(len, points.values())), f'sweep {bench.profile.name}',
                  unit='points') as progress:
        for name, values in points.items():
            for at, make in values.items():
                for strategy, rate in _over_base(make()).items():
                    swept[name].setdefault(strategy, {})[str(at)] = rate
                progress.add(1)
    return swept


def _over_base(bench: ReplayBench) -> dict[str, float]:
    summary = summarise(bench.run_all([STRATEGIES[name] for name in SWEPT]))
    return ratios(summary, BASE)


def _evaluate(bench: ReplayBench, strategies: Sequence[Strategy]) -> dict[str, Any]:
    started_s = time.perf_counter()
    records = []
    with Progress(len(strategies), f'replay {bench.profile.name}', unit='strategies') as progress:
        for strategy in _replayable(strategies, bench):
            records += bench.run(strategy)
            progress.add(1, strategy.name)
    summary = summarise(records)
    iterations = sum(record.num_iterations for record in records)
    return {'tokens_per_s': summary.tokens_per_s, 'gmean': summary.gmean,
            'shares': summary.shares, 'over_general_static': ratios(summary, BASE),
            'committed_per_iteration': summary.committed_per_iteration,
            'profile': vars(bench.profile),
            'iterations_per_minute': 60 * iterations / (time.perf_counter() - started_s)}


def _replayable(strategies: Sequence[Strategy], bench: ReplayBench) -> Iterator[Strategy]:
    has_ngram = all(NGRAM_DRAFT in table.runs for table in bench.tables)
    return (strategy for strategy in strategies
            if has_ngram or strategy.kind != STRATEGIES['ngram'].name)


def _compare(options: ReplayOptions, replayed: Mapping[str, Any]) -> None:
    """Write replayed over real throughput per strategy."""
    assert options.real is not None
    real = read_json(options.real)
    if not real:
        raise DataError(f'{options.real} does not exist: run memspec bench first')
    ratio = {name: gmean(replayed['tokens_per_s'][name][workload] / rate
                         for workload, rate in row.items()
                         if workload in replayed['tokens_per_s'][name] and rate)
             for name, row in real['tokens_per_s'].items() if name in replayed['tokens_per_s']}
    write_json(options.agreement or options.result.with_name('replay_vs_real.json'), ratio)
    for name, value in ratio.items():
        print(f'{name:26} replay / real {value:.3f}')


def _open_predictor(path: Path, table: AcceptanceTable) -> Predictor:
    opened = PredictorFile.load(path)
    if opened.kind != 'target_state':
        raise ConfigError(f'{path} is a predictor of kind {opened.kind}; replay asks those of '
                          'kind target_state, whose input the trace keeps')
    if any(goal.states is None for goal in table.goals):
        raise DataError('the trace keeps no target states for the predictor: make it with '
                        'memspec bench, or memspec trace --keep-states')
    return TargetStateRanker(opened.head, inputs=opened.inputs)


def _first_of_each(table: AcceptanceTable, num_prompts: int) -> Iterator[Any]:
    counts: dict[str, int] = {}
    for goal in table.goals:
        counts[goal.domain] = counts.get(goal.domain, 0) + 1
        if counts[goal.domain] <= num_prompts:
            yield goal


def _config(settings: RuntimeSettings, options: ReplayOptions,
            table: AcceptanceTable) -> dict[str, Any]:
    return {'trace': str(options.trace), 'goals': len(table.goals), 'steps': table.steps,
            'predictor': str(options.predictor or 'uniform'), 'max_tokens': options.max_tokens,
            'trace_tokens': table.max_tokens, 'draft_length': settings.draft_length,
            'cache_capacity': settings.cache_capacity,
            'scheduling_interval': settings.scheduling_interval,
            'recent_tokens': settings.recent_tokens}
