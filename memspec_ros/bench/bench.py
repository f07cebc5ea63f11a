# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec bench``: the paper's evaluation, in real time with real models and in replay."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memspec_ros.atomic_file import written_beside
from memspec_ros.bench.real_time import GoalKey, RealTimeBench
from memspec_ros.bench.record import RecordFile
from memspec_ros.bench.regime import Regime, hold_load_time, measured_profile
from memspec_ros.bench.replayed import ReplayBench, agreement
from memspec_ros.bench.strategies import choose_strategies
from memspec_ros.bench.summary import Summary, ratios, summarise
from memspec_ros.bench.swap_stall import measure_swap_stall
from memspec_ros.bench.trace_file import TraceFile
from memspec_ros.bench.workloads import Workload, open_workloads
from memspec_ros.config import Settings, read_params_file
from memspec_ros.errors import ConfigError
from memspec_ros.prediction.predictor import UniformPredictor
from memspec_ros.replay.predicted import predicted_tables
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.runtime.assembly import assemble
from memspec_ros.training.progress import Progress

NUM_PROBE_GOALS = 5


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What is measured, and how."""

    workloads: tuple[str, ...]
    num_prompts: int
    num_runs: int
    max_tokens: int
    draft_length: int
    unroll: int
    load_iterations: float
    seed: int
    strategies: tuple[str, ...]
    output: Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``memspec bench``."""
    parser.add_argument('--params-file', required=True, type=Path, metavar='FILE')
    parser.add_argument('--param', action='append', default=[], metavar='NAME=VALUE',
                        help='set one parameter; may be repeated')
    parser.add_argument('--workload', action='append', required=True, metavar='SOURCE',
                        help='NAME=FILE (JSON lines), or a folder with a folder per domain')
    parser.add_argument('--output', required=True, type=Path, metavar='FOLDER',
                        help='records, traces, profile and summary; a broken run goes on from it')
    parser.add_argument('--prompts', type=int, default=100, help='of each workload')
    parser.add_argument('--runs', type=int, default=3)
    parser.add_argument('--max-tokens', type=int, default=128)
    parser.add_argument('--draft-length', type=int, default=3, metavar='GAMMA')
    parser.add_argument('--unroll', type=int, default=7, metavar='GAMMA',
                        help='draft length of the traces: the longest that can be replayed')
    parser.add_argument('--load-iterations', type=float, default=2.7, metavar='X',
                        help='cap the bandwidth so that a load takes so many iterations (0: no)')
    parser.add_argument('--strategies', nargs='*', default=[], metavar='NAME',
                        help='default: all')
    parser.add_argument('--seed', type=int, default=0, help='of the sample of prompts')
    parser.add_argument('--stall', action='store_true',
                        help='also measure whether swaps stall decoding')


def run(args: argparse.Namespace) -> int:
    """Measure; write records, traces, the profile and the summary."""
    options = BenchOptions(
        workloads=tuple(args.workload), num_prompts=args.prompts, num_runs=args.runs,
        max_tokens=args.max_tokens, draft_length=args.draft_length, unroll=args.unroll,
        load_iterations=args.load_iterations, seed=args.seed,
        strategies=tuple(args.strategies), output=args.output)
    settings = bench_settings(args.params_file, args.param, options)
    args.output.mkdir(parents=True, exist_ok=True)
    bench = RealTimeBench(assemble(settings, print), settings, max_tokens=options.max_tokens,
                          unroll=options.unroll)
    try:
        summary = Measurement(bench, settings, options).run()
        if args.stall:
            _measure_stall(bench, options)
    finally:
        bench.close()
    show(summary)
    return 0


def bench_settings(path: Path, parameters: Sequence[str], options: BenchOptions) -> Settings:
    """Return the settings of a params file, reset per goal as the paper evaluates.

    :raises ConfigError: a parameter is not NAME=VALUE, unknown, or out of range.
    """
    values = read_params_file(path)
    for text in parameters:
        name, found, value = text.partition('=')
        if not found:
            raise ConfigError(f"--param '{text}' is not NAME=VALUE")
        values[name] = _parsed(value)
    values.update({'runtime.reset_per_goal': True, 'runtime.draft_length': options.draft_length})
    return Settings.from_parameters(values)


def _parsed(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


class Measurement:
    """One measurement: trace, regime, then every goal under every strategy in turn.

    The strategies take turns on each prompt, so that what slows the machine for a while slows
    them all.
    """

    def __init__(self, bench: RealTimeBench, settings: Settings, options: BenchOptions) -> None:
        self._bench = bench
        self._settings = settings
        self._options = options
        self._strategies = choose_strategies(options.strategies)
        self._workloads = [_fitting(workload, bench) for workload in open_workloads(
            options.workloads, num_prompts=options.num_prompts, seed=options.seed)]
        self._records = RecordFile(options.output / 'records.jsonl')
        self._traces = TraceFile(options.output / 'trace.safetensors', bench, options.max_tokens)

    def run(self) -> Summary:
        """Measure what is missing and return the figures."""
        keys = [GoalKey(workload=workload.name, prompt=prompt, run=number)
                for number in range(self._options.num_runs)
                for workload in self._workloads for prompt in workload.prompts]
        if any(strategy.needs_table for strategy in self._strategies):
            self._trace(keys)
        regime = hold_load_time(self._bench, _probes(keys), self._options.load_iterations)
        profile = measured_profile(self._bench, regime, prediction_s=0.0)
        with Progress(len(keys) * len(self._strategies), 'bench', unit='goals') as progress:
            for key in keys:
                self._measure(key, profile)
                progress.add(len(self._strategies))
        return self._finish(regime)

    def _trace(self, keys: Sequence[GoalKey]) -> None:
        missing = [key for key in keys if key.run == 0 and not self._traces.has(key)]
        with Progress(len(missing), 'trace', unit='goals') as progress:
            for key in missing:
                self._traces.add(self._bench.trace(key))
                progress.add(1)
        self._traces.save()

    def _measure(self, key: GoalKey, profile: DeviceProfile) -> None:
        for strategy in self._strategies:
            if not self._records.has((strategy.name, key.workload, key.prompt.id, key.run)):
                table = self._traces.table(key) if strategy.needs_table else None
                self._records.add(self._bench.run(strategy, key, table=table, profile=profile))

    def _finish(self, regime: Regime) -> Summary:
        records = self._records.records
        summary = summarise(records)
        predicted = [record for record in records if record.strategy == 'memspec']
        num_predictions = sum(record.num_points - 1 for record in predicted)
        prediction_s = sum(record.prediction_s for record in predicted) / max(1, num_predictions)
        profile = measured_profile(self._bench, regime, prediction_s=prediction_s)
        profile.save(self._options.output / 'profile.json')
        write_summary(self._options.output / 'summary.json', summary, {
            'config': self._config(regime), 'command': shlex.join(['memspec', *sys.argv[1:]])})
        if self._traces.goals:
            self._compare_with_replay(summary, profile)
        return summary

    def _compare_with_replay(self, real: Summary, profile: DeviceProfile) -> None:
        drafts = self._bench.drafts
        replayed = ReplayBench(
            tables=list(predicted_tables(self._traces.acceptance_table(),
                                         self._bench.assembly.predictor,
                                         self._settings.runtime.recent_tokens)),
            drafts=drafts, profile=profile, settings=self._settings.runtime,
            predictor=UniformPredictor([draft.name for draft in drafts]))
        ratio = agreement(summarise(replayed.run_all(self._strategies)), real)
        write_json(self._options.output / 'replay_vs_real.json', dict(ratio))

    def _config(self, regime: Regime) -> dict[str, Any]:
        return {
            'parameters': self._settings.as_parameters(),
            'prompts': {workload.name: len(workload.prompts) for workload in self._workloads},
            'runs': self._options.num_runs, 'max_tokens': self._options.max_tokens,
            'draft_length': self._options.draft_length, 'seed': self._options.seed,
            'regime': {**asdict(regime), 'load_iterations': regime.load_iterations}}


def _fitting(workload: Workload, bench: RealTimeBench) -> Workload:
    """Leave out prompts that do not fit the context, and say how many."""
    kept = tuple(prompt for prompt in workload.prompts if bench.fits(prompt))
    if len(kept) < len(workload.prompts):
        print(f'{workload.name}: {len(workload.prompts) - len(kept)} of '
              f'{len(workload.prompts)} prompts do not fit the context and are left out')
    return Workload(name=workload.name, prompts=kept)


def _probes(keys: Sequence[GoalKey]) -> list[GoalKey]:
    """Return some goals of all workloads, to measure the iteration on."""
    first_run = [key for key in keys if key.run == 0]
    return first_run[::max(1, len(first_run) // NUM_PROBE_GOALS)][:NUM_PROBE_GOALS]


def _measure_stall(bench: RealTimeBench, options: BenchOptions) -> None:
    workload, *_ = open_workloads(options.workloads, num_prompts=NUM_PROBE_GOALS,
                                  seed=options.seed)
    stall = measure_swap_stall(bench, workload.prompts)
    print(f'longest iteration during a load {stall.longest_over_median:.2f}x the median without')
    write_json(options.output / 'swap_stall.json', {
        **asdict(stall), 'longest_over_median': stall.longest_over_median,
        'slowdown': stall.slowdown})


def write_summary(path: Path, summary: Summary, about: dict[str, Any]) -> None:
    """Write the figures with how they were made."""
    write_json(path, {**about, **summary.as_json(),
                      'over_general_static': ratios(summary, 'general_static'),
                      'over_plain': ratios(summary, 'plain')})


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON file, beside and renamed."""
    with written_beside(path) as file:
        file.write((json.dumps(value, indent=2) + '\n').encode())


def show(summary: Summary) -> None:
    """Print a line per strategy."""
    over = ratios(summary, 'general_static')
    for name, rate in summary.gmean.items():
        shares = summary.shares[name]
        print(f'{name:24} {rate:7.1f} tokens/s  {over.get(name, 0.0):5.2f}x general_static  '
              f'desired {shares["desired"]:.3f} fallback {shares["fallback"]:.3f} prediction '
              f'{shares["prediction"]:.4f} load wait {shares["load_wait"]:.3f}  different '
              f'{summary.num_different[name]}/{summary.num_goals[name]}')
