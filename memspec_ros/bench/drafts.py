# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Every domain with its specialist, the general draft, the n-gram draft and plain, in one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memspec_ros.bench.campaign import Campaign, fitting, in_turn, stop_signals, warm_up
from memspec_ros.bench.details import load_warning
from memspec_ros.bench.job import job_of
from memspec_ros.bench.real_time import RealTimeBench
from memspec_ros.bench.result_file import OtherLoad, command_line, read_json, write_json
from memspec_ros.bench.strategies import NGRAM, PLAIN, STRATEGIES, Strategy, static_strategy
from memspec_ros.bench.summary import Summary, gmean, summarise
from memspec_ros.bench.workloads import Workload
from memspec_ros.config import Settings
from memspec_ros.runtime.plan import NGRAM_DRAFT
from memspec_ros.runtime.policies.static import general_draft


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """What is measured, and where the results go.

    :param all_pairs: every draft on every domain, not only each specialist on its own.
    """

    folder: Path
    result: Path
    num_prompts: int = 100
    num_runs: int = 3
    all_pairs: bool = False


class DraftSpeeds:
    """Tokens/s of single drafts, each kept for the whole answer."""

    def __init__(self, bench: RealTimeBench, settings: Settings, workloads: Sequence[Workload],
                 options: DraftOptions, about: Mapping[str, Any]) -> None:
        self._bench = bench
        self._settings = settings
        self._options = options
        self._about = dict(about)
        self._load = OtherLoad()
        self._general = general_draft(bench.drafts)
        self._domains = {draft.name: draft.domain for draft in bench.drafts}
        self._workloads = [fitting(workload, bench, options.num_prompts)[0]
                           for workload in workloads]
        self._tasks = list(in_turn(self._strategies(), self._workloads, options.num_runs,
                                   wanted=self._is_wanted))
        self._campaign = Campaign(options.folder, job_of(bench, settings))

    def run(self) -> dict[str, Any]:
        """Measure what is missing and put tokens/s into the result file, beside what it has."""
        warm_up(self._bench, self._tasks)
        try:
            with stop_signals():
                self._campaign.run(self._tasks, lambda task: self._bench.run(
                    task.strategy, task.key), label='drafts')
        finally:
            document = self._write()
        return document

    def _strategies(self) -> list[Strategy]:
        ngram = [STRATEGIES[NGRAM]] if NGRAM_DRAFT in self._bench.assembly.draft_names else []
        return [STRATEGIES[PLAIN], *ngram, *(static_strategy(name) for name in self._bench.pool)]

    def _is_wanted(self, strategy: Strategy, workload: str) -> bool:
        if self._options.all_pairs or strategy.name not in self._domains:
            return True
        return strategy.name == self._general or self._domains[strategy.name] == workload

    def _write(self) -> dict[str, Any]:
        records = self._campaign.of(self._tasks)
        summary = summarise(records)
        print('\n'.join(_lines(summary, self._domains, self._general)))
        kept = read_json(self._options.result)
        command = command_line()
        if (before := kept.get('command')) and command not in before:
            command = f'{before} && {command}'
        document = {**kept, 'command': before if before and command in before else command,
                    'tokens_per_s': summary.tokens_per_s, 'tokens_per_s_config': {
                        **self._about, 'complete': len(records) == len(self._tasks),
                        'load': self._load.as_json(), 'runs': self._options.num_runs,
                        'prompts': {one.name: len(one.prompts) for one in self._workloads},
                        'max_tokens': self._bench.max_tokens,
                        'draft_length': self._bench.draft_length,
                        'counted_committed_per_iteration': summary.committed_per_iteration,
                        'outputs_differing_from_plain': summary.num_different,
                        'parameters': self._settings.as_parameters()}}
        write_json(self._options.result, document)
        if warning := load_warning(document['tokens_per_s_config']):
            print(warning)
        return document


def _lines(summary: Summary, domains: Mapping[str, str], general: str) -> list[str]:
    """Return the matrix as text, a star at each draft's own domain, and the specialists' gain."""
    rates = summary.tokens_per_s
    workloads = list(dict.fromkeys(name for row in rates.values() for name in row))
    lines = [f'{"tokens/s":16}' + ''.join(f'{name[:9]:>10} ' for name in workloads)]
    for draft, row in rates.items():
        cells = (f'{row[name]:10.1f}' + ('*' if domains.get(draft) == name else ' ')
                 if name in row else ' ' * 11 for name in workloads)
        lines.append(f'{draft:16}' + ''.join(cells))
    gains = [row[domains[draft]] / rates[general][domains[draft]] for draft, row in rates.items()
             if draft != general and domains.get(draft) in row
             and domains[draft] in rates.get(general, {})]
    if gains:
        lines.append(f'specialists over the general draft on their own domains, geometric mean: '
                     f'{gmean(gains):.3f}')
    return lines
