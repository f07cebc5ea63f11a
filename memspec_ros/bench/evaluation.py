# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The paper's evaluation in real time: strategies by workloads, with real models and threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from memspec_ros.bench.calibration import calibrate, measure_catch_up
from memspec_ros.bench.campaign import Campaign, Task, fitting, in_turn, stop_signals, warm_up
from memspec_ros.bench.details import details_of, result_of, table_lines
from memspec_ros.bench.job import job_of
from memspec_ros.bench.machine_profile import profile_of
from memspec_ros.bench.real_time import RealTimeBench
from memspec_ros.bench.record import GoalRecord
from memspec_ros.bench.regime import Regime, hold_load_time, measured_profile
from memspec_ros.bench.result_file import OtherLoad, command_line, read_json, write_json
from memspec_ros.bench.strategies import NGRAM, PLAIN, STRATEGIES, Strategy
from memspec_ros.bench.summary import summarise
from memspec_ros.bench.swap_stall import measure_swap_stall
from memspec_ros.bench.trace_file import TraceFile
from memspec_ros.bench.workloads import Workload
from memspec_ros.config import Settings
from memspec_ros.errors import ConfigError
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.training.progress import Progress

NUM_PROBE_GOALS = 5
MIN_SWAPPED = 3


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """What is measured, and where the results go.

    :param folder: records, traces and profile; a broken run goes on from it.
    :param result: the result file.
    :param load_iterations: what a load is to take, in iterations of General-Static; 0 sets no
        cap.
    :param stall: measure too whether swaps stall decoding.
    """

    folder: Path
    result: Path
    num_prompts: int = 100
    num_runs: int = 3
    load_iterations: float = 2.7
    strategies: tuple[Strategy, ...] = tuple(STRATEGIES.values())
    stall: bool = False


class Evaluation:
    """One evaluation: trace, hold the load time, then every goal under every strategy in turn.

    :param settings: the bench's.
    :param about: what the result says of machine and workloads.
    """

    def __init__(self, bench: RealTimeBench, settings: Settings, workloads: Sequence[Workload],
                 options: EvaluationOptions, about: Mapping[str, Any]) -> None:
        self._bench = bench
        self._settings = settings
        self._options = options
        self._load = OtherLoad()
        self._stall: dict[str, float] = {}
        self._catch_up_s: tuple[float, float] | None = None
        chosen = [fitting(workload, bench, options.num_prompts) for workload in workloads]
        self._workloads = [workload for workload, _ in chosen]
        self._left_out = {workload.name: number for workload, number in chosen if number}
        self._tasks = list(in_turn(options.strategies, self._workloads, options.num_runs))
        self._keys = list(dict.fromkeys(task.key for task in self._tasks if task.key.run == 0))
        self._about = dict(about)
        self._check_pool()
        self._campaign = Campaign(options.folder, job_of(
            bench, settings, load_iterations=options.load_iterations))
        self._traces = TraceFile(options.folder / 'trace.safetensors', bench)

    def run(self) -> dict[str, Any]:
        """Measure what is missing, write the result (also of a run that is broken off)."""
        with stop_signals():
            if any(task.strategy.needs_table for task in self._tasks):
                self._trace()
            regime = self._hold_load_time() if self._bench.pool else None
            profile = self._calibrate(regime) if regime else None
            warm_up(self._bench, self._tasks)
            try:
                self._campaign.run(self._tasks, lambda task: self._measure(task, profile),
                                   label='bench')
                self._measure_stall()
            finally:
                document = self._write(regime)
                print('\n'.join(table_lines(document)))
        return document

    def _check_pool(self) -> None:
        need_pool = [strategy.name for strategy in self._options.strategies
                     if strategy.kind not in (PLAIN, NGRAM)]
        if need_pool and not self._bench.pool:
            raise ConfigError(f'the pool has no drafts, which {", ".join(need_pool)} need: set '
                              'draft.pool, or measure --strategies plain,ngram')
        if self._options.stall and len(self._bench.pool) < MIN_SWAPPED:
            raise ConfigError(f'--stall swaps {MIN_SWAPPED} drafts at the least; the pool has '
                              f'{len(self._bench.pool)}')

    def _trace(self) -> None:
        missing = [key for key in self._keys if not self._traces.has(key)]
        with Progress(len(missing), 'trace', unit='goals') as progress:
            try:
                for key in missing:
                    self._traces.add(self._bench.trace(key))
                    progress.add(1)
            finally:
                self._traces.save()

    def _measure_stall(self) -> None:
        if self._options.stall:
            stall = measure_swap_stall(self._bench, self._workloads[0].prompts[:NUM_PROBE_GOALS])
            self._stall = {**asdict(stall), 'longest_over_median': stall.longest_over_median,
                           'slowdown': stall.slowdown}

    def _hold_load_time(self) -> Regime:
        """Set the cap that was found when the measurement began, or find it."""
        path = self._options.folder / 'regime.json'
        if known := read_json(path):
            self._bench.set_bandwidth(known['load_bandwidth_mb_s'])
            return Regime(**known)
        step = max(1, len(self._keys) // NUM_PROBE_GOALS)
        regime = hold_load_time(self._bench, self._keys[::step][:NUM_PROBE_GOALS],
                                self._options.load_iterations)
        write_json(path, asdict(regime))
        return regime

    def _calibrate(self, regime: Regime) -> DeviceProfile:
        """Return this machine's profile, for the oracles to plan with."""
        records = calibrate(self._bench, self._keys)
        self._catch_up_s = measure_catch_up(self._bench, self._keys[0],
                                            self._settings.draft.context_tokens)
        return profile_of(measured_profile(self._bench, regime, prediction_s=0.0), records)

    def _measure(self, task: Task, profile: DeviceProfile | None) -> GoalRecord:
        table = self._traces.table(task.key) if task.strategy.needs_table else None
        return self._bench.run(task.strategy, task.key, table=table, profile=profile)

    def _write(self, regime: Regime | None) -> dict[str, Any]:
        records = self._campaign.of(self._tasks)
        summary = summarise(records)
        profile = None
        if regime:
            profile = profile_of(measured_profile(self._bench, regime, prediction_s=0.0), records)
            replace(profile, catch_up_s=self._catch_up_s or profile.catch_up_s,
                    context_tokens=self._settings.draft.context_tokens).save(
                        self._options.folder / 'profile.json')
        complete = len(records) == len(self._tasks)
        document = result_of(summary, config=self._config(regime, complete=complete),
                             command=command_line(),
                             details={**details_of(summary, records, profile),
                                      'swap_stall': self._stall})
        write_json(self._options.folder / 'summary.json', document)
        write_json(self._options.result, document)
        return document

    def _config(self, regime: Regime | None, *, complete: bool) -> dict[str, Any]:
        runtime = self._settings.runtime
        return {
            **self._about, 'complete': complete, 'load': self._load.as_json(),
            'prompts': {workload.name: len(workload.prompts) for workload in self._workloads},
            'left_out_for_length': self._left_out, 'runs': self._options.num_runs,
            'max_tokens': self._bench.max_tokens, 'draft_length': runtime.draft_length,
            'cache_capacity': runtime.cache_capacity,
            'scheduling_interval': runtime.scheduling_interval,
            'recent_tokens': runtime.recent_tokens,
            'deterministic': self._settings.target.deterministic,
            'strategies': [strategy.name for strategy in self._options.strategies],
            'regime': _regime_json(regime),
            'drafts': {draft.name: draft.num_bytes for draft in self._bench.drafts},
            'parameters': self._settings.as_parameters()}


def _regime_json(regime: Regime | None) -> dict[str, float]:
    return {} if regime is None else {
        **asdict(regime), 'load_iterations': regime.load_iterations,
        'load_plain_iterations': regime.load_s / regime.plain_s}
