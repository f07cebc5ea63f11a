# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec trace``: the acceptance table of a pool, and the matrix of drafts by domains."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from memspec_ros.atomic_file import written_beside
from memspec_ros.config import TargetSettings
from memspec_ros.errors import ConfigError, DataError, UnsupportedModelError
from memspec_ros.models.draft_file import read_draft_weights
from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.models.model_reference import resolve
from memspec_ros.models.ngram_draft import NgramDraft
from memspec_ros.models.pool import Pool, PoolEntry, load_pool
from memspec_ros.models.pool_files import draft_path, file_checksum
from memspec_ros.models.target import load_target
from memspec_ros.replay.acceptance_table import (
    AcceptanceTable,
    TracedDraft,
    TracedGoal,
    read_acceptance_table,
)
from memspec_ros.training.batch_decode import BatchDecoder
from memspec_ros.training.corpus_file import Conversation
from memspec_ros.training.distill_data import read_corpora
from memspec_ros.training.draft_matrix import DraftMatrix
from memspec_ros.training.independent_trace import independent_draft
from memspec_ros.training.progress import Progress
from memspec_ros.training.served_drafts import served_drafts
from memspec_ros.training.slots import TargetTables
from memspec_ros.training.trace_check import check_table
from memspec_ros.training.trace_runs import Runs, boundary_runs, feature_runs, output_of
from memspec_ros.training.trained_target import FORMS, SERVED, TrainedTarget, node_dtype

NGRAM = 'ngram'
MAX_STEPS = 15
PART_GOALS = 64

Judge = Callable[[Conversation], Runs]


@dataclass(frozen=True, kw_only=True)
class TraceOptions:
    """What is traced.

    :raises ConfigError: ``steps`` is out of range.
    """

    steps: int = 7
    ngram: bool = True
    keep_states: bool = False
    as_served: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= MAX_STEPS:
            raise ConfigError(f'steps is {self.steps}; it must be in [1, {MAX_STEPS}]')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``memspec trace``."""
    parser.add_argument('--target', required=True, metavar='MODEL')
    parser.add_argument('--tokenizer', default='', metavar='PATH')
    parser.add_argument('--pool', required=True, metavar='POOL', help='pool description (YAML)')
    parser.add_argument('--corpus', required=True, nargs='+', type=Path, metavar='FILE',
                        help='answers of the target (memspec corpus), files or folders')
    parser.add_argument('--output', required=True, type=Path, metavar='FILE',
                        help='the trace (safetensors)')
    parser.add_argument('--steps', type=int, default=TraceOptions.steps,
                        help='longest draft length that can be replayed (default: %(default)s)')
    parser.add_argument('--no-ngram', action='store_true', help='leave the n-gram draft out')
    parser.add_argument('--keep-states', action='store_true',
                        help="keep the target's states, for predictors")
    parser.add_argument('--as-served', action='store_true',
                        help='ask the drafts as the node runs them, with states of the target '
                        'as the node computes them: slower, and right to the token for answers '
                        'that were made so (memspec corpus --form served)')
    parser.add_argument('--form', choices=FORMS, default=SERVED,
                        help='numbers that the target computes in, with --as-served: as the node '
                        'serves it (default), or fp32')
    parser.add_argument('--report', type=Path, metavar='FILE',
                        help='print the matrix of drafts by domains, and write it there as JSON, '
                        'and beside it as PNG where matplotlib is installed')
    parser.add_argument('--check', type=int, default=0, metavar='N',
                        help='then run N goals of each domain in the loop, as the node does, and '
                        'compare their iterations with the table (with --as-served)')
    parser.add_argument('--draft-length', type=int, default=3, metavar='N',
                        help='tokens drafted per iteration in the report (default: %(default)s)')


def run(args: argparse.Namespace) -> int:
    """Trace a pool and report."""
    target = TrainedTarget.load(args.target, tokenizer=args.tokenizer, as_served=args.as_served,
                                form=args.form)
    pool = load_pool(resolve(args.pool), target.tokenizer.content_checksum())
    items = read_corpora(args.corpus, target, args.output.with_name('.states'))
    options = TraceOptions(steps=args.steps, ngram=not args.no_ngram,
                           keep_states=args.keep_states, as_served=args.as_served)
    tracer = PoolTracer(pool, target, options)
    table = tracer.trace(items, args.output.with_name(f'{args.output.name}.parts'))
    table.write(args.output)
    if args.report:
        report(DraftMatrix.from_table(table, args.draft_length), args.report, pool)
    if args.check:
        loaded = load_target(TargetSettings(model=args.target, tokenizer=args.tokenizer,
                                            dtype=node_dtype(args.form)))
        drafts = {**tracer.served, NGRAM: NgramDraft(name=NGRAM)}
        print(check_table(table, loaded.target, drafts, draft_length=args.draft_length,
                          goals_per_domain=args.check))
    return 0


def report(matrix: DraftMatrix, path: Path, pool: Pool) -> None:
    """Print the matrix, write it as JSON, and draw it where that is possible."""
    print('\n'.join(matrix.rows()))
    if pool.general_draft in matrix.committed:
        print(f'gain of the specialists on their own domains (geometric mean): '
              f'{matrix.gain(pool.general_draft):.3f}')
    document = matrix.document(pool=pool.name, target=pool.target)
    with written_beside(path) as file:
        file.write((json.dumps(document, indent=1) + '\n').encode())
    try:
        matrix.draw(path.with_suffix('.png'))
    except ImportError:
        print('not drawn: matplotlib is not installed')


class PoolTracer:
    """Traces every draft of a pool over known answers.

    ``served`` are the drafts as the node runs them, when they are asked so.
    """

    def __init__(self, pool: Pool, target: TrainedTarget, options: TraceOptions) -> None:
        self._target = target
        self._options = options
        self._judges: dict[str, Judge] = {}
        self._drafts: dict[str, TracedDraft] = {}
        self._may_be_silent: set[str] = set()
        self.served = served_drafts(pool, target) if options.as_served else {}
        for entry in pool.drafts:
            path = draft_path(pool, entry)
            self._drafts[entry.name] = TracedDraft(
                domain=entry.domain, num_bytes=path.stat().st_size,
                checksum=file_checksum(path))
            self._judges[entry.name] = self._judge(entry, path)
        if options.ngram:
            self._drafts[NGRAM] = TracedDraft(domain='')
            self._judges[NGRAM] = self._ask(NgramDraft(name=NGRAM))
            self._may_be_silent.add(NGRAM)

    def trace(self, items: Sequence[Conversation], folder: Path) -> AcceptanceTable:
        """Trace all answers, in parts that survive a kill.

        :param folder: of the parts; removed at the end.
        :raises DataError: there are no answers.
        """
        if not items:
            raise DataError('there are no answers to trace')
        max_tokens = max(len(item.output_ids) for item in items)
        goals: list[TracedGoal] = []
        with Progress(len(items), 'trace', unit='answers') as progress:
            for start in range(0, len(items), PART_GOALS):
                part = items[start:start + PART_GOALS]
                goals += self._part(part, max_tokens, folder)
                progress.add(len(part))
        for file in folder.glob('*.safetensors'):
            file.unlink()
        if folder.exists():
            folder.rmdir()
        return self._table(goals, max_tokens)

    def _part(self, items: Sequence[Conversation], max_tokens: int,
              folder: Path) -> tuple[TracedGoal, ...]:
        key = repr([self._target.checksum, self._options, self._drafts, max_tokens,
                    [(item.id, item.prompt_ids, item.output_ids) for item in items]])
        file = folder / f'{hashlib.sha256(key.encode()).hexdigest()[:24]}.safetensors'
        if not file.exists():
            folder.mkdir(parents=True, exist_ok=True)
            self._table([self._goal(item, states) for item, states in
                         zip(items, self._exact_states(items), strict=True)],
                        max_tokens).write(file)
        return read_acceptance_table(file).goals

    def _table(self, goals: Sequence[TracedGoal], max_tokens: int) -> AcceptanceTable:
        return AcceptanceTable(goals=tuple(goals), drafts=self._drafts, max_tokens=max_tokens,
                               steps=self._options.steps, target=self._target.checksum)

    def _exact_states(self, items: Sequence[Conversation]) -> Iterator[torch.Tensor | None]:
        """States in fp32, where the drafts are to see exactly what the node shows them."""
        if not self._options.as_served:
            return iter([item.states for item in items])
        sequences = [item.prompt_ids + item.output_ids[:-1] for item in items]
        rows = self._target.rows(num_rows=8, capacity=max(map(len, sequences)))
        return BatchDecoder(rows).teacher_forced(sequences)

    def _goal(self, item: Conversation, states: torch.Tensor | None) -> TracedGoal:
        output, ended = output_of(item, self._target.tokenizer.end_ids)
        seen = replace(item, states=states)
        judged = {name: judge(seen) for name, judge in self._judges.items()}
        return TracedGoal(
            id=item.id, domain=item.domain, prompt_ids=item.prompt_ids, output_ids=output,
            ended=ended, runs={name: runs.runs for name, runs in judged.items()},
            proposed={name: judged[name].proposed for name in sorted(self._may_be_silent)},
            states=self._states(item, ended) if self._options.keep_states else None)

    def _states(self, item: Conversation, ended: bool) -> torch.Tensor | None:
        if item.states is None or ended:
            return item.states
        return torch.cat((item.states, torch.zeros_like(item.states[:1])))

    def _judge(self, entry: PoolEntry, path: Path) -> Judge:
        if entry.name in self.served:
            return self._ask(self.served[entry.name])
        if path.is_dir():
            raise UnsupportedModelError(f"draft '{entry.name}' is a checkpoint folder; only "
                                        'draft files are traced')
        header, weights = read_draft_weights(path)
        if header.card.kind == 'independent':
            return self._ask(independent_draft(entry.name, header, weights, self._target))
        config = FeatureConfig.from_architecture(header.card.architecture)
        rows = weights.pop('output_token_ids').long()
        embedding = self._target.weights.embedding
        tables = TargetTables.make(embedding, embedding, rows)
        head = tables.rows @ weights['out']

        def judge(item: Conversation) -> Runs:
            runs = feature_runs(weights, config, tables, head, item, steps=self._options.steps,
                                end_ids=self._target.tokenizer.end_ids)
            return Runs(runs=runs, proposed=[])
        return judge

    def _ask(self, draft: object) -> Judge:
        def judge(item: Conversation) -> Runs:
            return boundary_runs(
                draft, item, steps=self._options.steps,  # type: ignore[arg-type]
                end_ids=self._target.tokenizer.end_ids,
                vocab_size=self._target.config.vocab_size)
        return judge
