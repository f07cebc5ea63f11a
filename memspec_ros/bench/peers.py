# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Ours beside what a robot builder would take instead, in one run on the same prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memspec_ros.bench.campaign import Campaign, Task, fitting, in_turn, stop_signals
from memspec_ros.bench.job import job_of
from memspec_ros.bench.peer_figures import figures_of, lines_of
from memspec_ros.bench.peer_process import PeerAnswer, PeerOrder, PeerProcess, peak_rss_bytes
from memspec_ros.bench.real_time import RealTimeBench
from memspec_ros.bench.record import GoalRecord, digest_of
from memspec_ros.bench.result_file import OtherLoad, command_line, write_json
from memspec_ros.bench.strategies import NGRAM, PLAIN, STRATEGIES, Strategy
from memspec_ros.bench.workloads import Workload
from memspec_ros.config import Settings
from memspec_ros.errors import DependencyError
from memspec_ros.runtime.plan import NGRAM_DRAFT

OURS = {'ours_plain': PLAIN, 'ours_ngram': NGRAM, 'ours_general': 'general_static',
        'ours_memspec': 'memspec', 'ours_memspec_online': 'memspec_online'}
NEED_POOL = ('ours_general', 'ours_memspec', 'ours_memspec_online')


@dataclass(frozen=True, kw_only=True)
class PeerOptions:
    """What is compared, and where the results go.

    :param llama_python: interpreter that has llama-cpp-python; '' is ours.
    :param transformers_python: the same for transformers.
    :param assistant: a smaller model of the target's family, for assisted generation.
    """

    folder: Path
    result: Path
    model: str
    num_prompts: int = 5
    num_runs: int = 5
    llama_python: str = ''
    transformers_python: str = ''
    llama_look_up_tokens: int = 2
    transformers_look_up_tokens: int = 3
    assistant: str = ''
    rows: tuple[str, ...] = ()


@dataclass(kw_only=True)
class OpenPeers:
    """The peers that are here, and why the others are not."""

    processes: dict[str, PeerProcess] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    peak_rss_bytes: dict[str, int] = field(default_factory=dict)

    def open(self, row: str, order: PeerOrder, python: str) -> None:
        """Open a peer, or note why it cannot be."""
        try:
            self.processes[row] = PeerProcess(order, python=python)
        except DependencyError as error:
            self.absent[row] = str(error)

    def generate(self, row: str, prompt: Sequence[int], max_tokens: int) -> PeerAnswer:
        """Let a peer decode a goal."""
        answer = self.processes[row].generate(prompt, max_tokens)
        self.cpu_s[row] = answer.cpu_s
        self.peak_rss_bytes[row] = answer.peak_rss_bytes
        return answer

    def close(self) -> None:
        """End all processes."""
        for process in self.processes.values():
            process.close()


class PeerComparison:
    """One run: a prompt of each workload in turn, all rows on it, several times over.

    Ours are timed from the end of the prompt's processing to the last token, the wait for the
    first draft included, as the peers have no such thing to leave out.
    """

    def __init__(self, bench: RealTimeBench, settings: Settings, workloads: Sequence[Workload],
                 options: PeerOptions, about: Mapping[str, Any]) -> None:
        self._bench = bench
        self._settings = settings
        self._options = options
        self._about = dict(about)
        self._load = OtherLoad()
        self._peers = OpenPeers()
        self._tasks: list[Task] = []
        self._workloads = [fitting(workload, bench, options.num_prompts)[0]
                           for workload in workloads]

    def run(self) -> dict[str, Any]:
        """Open the peers, measure what is missing, and write the result."""
        options, bench = self._options, self._bench
        campaign = Campaign(options.folder, job_of(bench, self._settings, look_up_tokens=[
            options.llama_look_up_tokens, options.transformers_look_up_tokens]))
        try:
            rows = list(self._rows())
            tasks = list(in_turn(rows, self._workloads, options.num_runs))
            self._tasks = tasks
            self._warm_up(tasks[:len(rows)])
            with stop_signals():
                campaign.run(tasks, self._measure, label='peers')
        finally:
            document = self._write(campaign.records)
            self._peers.close()
        return document

    def _rows(self) -> Iterator[Strategy]:
        """Yield the rows that can be measured here."""
        assembly, wanted = self._bench.assembly, self._options.rows
        for row, strategy in OURS.items():
            if wanted and row not in wanted:
                continue
            if row in NEED_POOL and not self._bench.pool:
                self._peers.absent[row] = 'draft.pool is empty: there are no drafts'
            elif row == 'ours_ngram' and NGRAM_DRAFT not in assembly.draft_names:
                self._peers.absent[row] = 'draft.ngram is false'
            else:
                yield Strategy(name=row, label=row, parameters=STRATEGIES[strategy].parameters,
                               runs_as=strategy)
        for row, open_row in self._peer_rows().items():
            if not wanted or row in wanted:
                open_row(row)
                if row in self._peers.processes:
                    yield Strategy(name=row, label=row)

    def _peer_rows(self) -> dict[str, Callable[[str], None]]:
        options = self._options

        def opener(kind: str, **more: Any) -> Callable[[str], None]:
            python = options.llama_python if kind == 'llama_cpp' else options.transformers_python
            return lambda row: self._peers.open(row, self._order(kind, **more), python)

        def absent(row: str) -> None:
            self._peers.absent[row] = ("no --assistant MODEL of the target's family was given "
                                       '(our drafts are none that transformers can run)')
        return {
            'llama_cpp_plain': opener('llama_cpp'),
            'llama_cpp_prompt_lookup': opener(
                'llama_cpp', look_up_tokens=options.llama_look_up_tokens),
            'transformers_generate': opener('transformers'),
            'transformers_prompt_lookup': opener(
                'transformers', look_up_tokens=options.transformers_look_up_tokens),
            'transformers_assisted': opener('transformers', assistant=options.assistant)
            if options.assistant else absent}

    def _order(self, kind: str, **more: Any) -> PeerOrder:
        target = self._bench.assembly.target
        return PeerOrder(kind=kind, model=self._options.model,
                         context_tokens=target.context_tokens,
                         num_threads=self._about['num_threads'],
                         end_ids=tuple(sorted(target.end_ids)), **more)

    def _warm_up(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self._measure(task)

    def _measure(self, task: Task) -> GoalRecord:
        if task.strategy.name not in self._peers.processes:
            return self._bench.run(task.strategy, task.key)
        key, prompt = task.key, self._bench.prompt_ids(task.key.prompt)
        answer = self._peers.generate(task.strategy.name, prompt, self._bench.max_tokens)
        return GoalRecord(
            strategy=task.strategy.name, workload=key.workload, prompt=key.prompt.id,
            run=key.run, num_tokens=len(answer.tokens), num_iterations=0, num_drafted=0,
            num_accepted=0, desired_s=answer.decode_s, fallback_s=0.0, prediction_s=0.0,
            load_wait_s=0.0, startup_s=0.0, prefill_s=answer.prefill_s,
            wall_decode_s=answer.decode_s, first_token_s=answer.first_token_s,
            num_prompt_tokens=len(prompt), output=digest_of(answer.tokens))

    def _write(self, records: Sequence[GoalRecord]) -> dict[str, Any]:
        document = figures_of(records, {
            'config': self._config(records), 'why_absent': self._peers.absent,
            'peak_rss_bytes': {'ours': peak_rss_bytes(), **self._peers.peak_rss_bytes}},
            command_line())
        write_json(self._options.result, document)
        print('\n'.join(lines_of(document)))
        return document

    def _config(self, records: Sequence[GoalRecord]) -> dict[str, Any]:
        measured = {record.key for record in records}
        return {
            **self._about,
            'complete': all(task.record_key in measured for task in self._tasks),
            'load': self._load.as_json(own_s=sum(self._peers.cpu_s.values())),
            'peers': {row: peer.about for row, peer in self._peers.processes.items()},
            'prompts': {one.name: len(one.prompts) for one in self._workloads},
            'runs': self._options.num_runs, 'max_tokens': self._bench.max_tokens,
            'memory_sum': dict(self._bench.assembly.info.memory),
            'look_up_tokens': {'llama_cpp': self._options.llama_look_up_tokens,
                               'transformers': self._options.transformers_look_up_tokens},
            'parameters': self._settings.as_parameters()}
