# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec corpus``: the target answers prompts."""

from __future__ import annotations

import argparse
import multiprocessing
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from memspec_ros.errors import ConfigError, DataError
from memspec_ros.training.batch_decode import BatchDecoder
from memspec_ros.training.corpus_job import (
    CorpusJob,
    CorpusOptions,
    TokenizedPrompt,
    interleave,
)
from memspec_ros.training.progress import Progress
from memspec_ros.training.prompts import read_prompts, tokenize
from memspec_ros.training.trained_target import FORMS, SERVED, TrainedTarget


@dataclass(frozen=True, kw_only=True)
class CorpusRequest:
    """All that a worker process needs to make its share of the parts."""

    target: str
    tokenizer: str
    prompts: tuple[str, ...]
    domain: str
    limit: int
    max_prompt_tokens: int
    output: Path
    options: CorpusOptions

    def load_target(self) -> TrainedTarget:
        """Load the target in the form that answers are made in."""
        return TrainedTarget.load(self.target, tokenizer=self.tokenizer,
                                  as_served=True, form=self.options.form)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``memspec corpus``."""
    defaults = CorpusOptions()
    parser.add_argument('--target', required=True, metavar='MODEL',
                        help='a path, pkg:MODULE/FILE or hf:ORG/NAME')
    parser.add_argument('--tokenizer', default='', metavar='PATH')
    parser.add_argument('--prompts', required=True, nargs='+', metavar='SOURCE',
                        help='JSON lines {id, domain, prompt}; own:robot[:COUNT]; '
                        'datasets:NAME[:CONFIG[:SPLIT]]')
    parser.add_argument('--domain', default='', help='domain of rows that name none')
    parser.add_argument('--output', required=True, type=Path, metavar='FILE',
                        help='the corpus (safetensors); its parts lie in FILE.parts meanwhile')
    parser.add_argument('--limit', type=int, default=0, metavar='N',
                        help='answer the first N prompts, all domains in turn (0: all)')
    parser.add_argument('--max-prompt-tokens', type=int, default=480, metavar='N',
                        help='leave out longer prompts (default: %(default)s)')
    parser.add_argument('--max-new-tokens', type=int, default=defaults.max_new_tokens)
    parser.add_argument('--temperature', type=float, default=defaults.temperature,
                        help='0 is greedy (default)')
    parser.add_argument('--seed', type=int, default=defaults.seed)
    parser.add_argument('--batch', type=int, default=defaults.num_rows, metavar='ROWS')
    parser.add_argument('--part-prompts', type=int, default=defaults.part_prompts, metavar='N',
                        help='prompts per part: what a kill loses at most')
    parser.add_argument('--keep-states', action='store_true',
                        help="keep the target's hidden states (1.2 KB a token at 576 channels), "
                        'so that distilling need not run it again')
    parser.add_argument('--form', choices=FORMS, default=SERVED,
                        help='numbers that the target computes in: as the node serves it '
                        '(default; the native decoder, where it is built), or fp32')
    parser.add_argument('--workers', type=int, default=1,
                        help='processes, one CPU thread each; better than threads on few cores '
                        'that others use, too')


def run(args: argparse.Namespace) -> int:
    """Make or resume a corpus."""
    if args.workers < 1:
        raise ConfigError(f'--workers is {args.workers}; it must be at least 1')
    request = CorpusRequest(
        target=args.target, tokenizer=args.tokenizer, prompts=tuple(args.prompts),
        domain=args.domain, limit=args.limit, max_prompt_tokens=args.max_prompt_tokens,
        output=args.output, options=CorpusOptions(
            max_new_tokens=args.max_new_tokens, temperature=args.temperature, seed=args.seed,
            num_rows=args.batch, part_prompts=args.part_prompts, keep_states=args.keep_states,
            form=args.form))
    if args.workers > 1:
        _run_workers(request, args.workers)
    else:
        _work(request, 0, 1)
    target = request.load_target()
    job, _ = _open(request, target)
    job.join()
    print(f'{args.output}: the corpus is complete')
    return 0


def _run_workers(request: CorpusRequest, count: int) -> None:
    context = multiprocessing.get_context('spawn')
    workers = [context.Process(target=_work, args=(request, number, count))
               for number in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise DataError('a worker ended early; run the same command again to go on')


def _open(request: CorpusRequest,
          target: TrainedTarget) -> tuple[CorpusJob, list[TokenizedPrompt]]:
    rows = [row for source in request.prompts
            for row in read_prompts(source, domain=request.domain)]
    prompts, num_long = tokenize(rows, target.tokenizer,
                                 max_prompt_tokens=request.max_prompt_tokens)
    if num_long:
        print(f'{num_long} of {len(rows)} prompts are longer than '
              f'{request.max_prompt_tokens} tokens and left out')
    prompts = interleave(prompts)[:request.limit or None]
    options = replace(request.options, form=target.form)
    return CorpusJob(request.output, prompts, options, target=target.checksum), prompts


def _work(request: CorpusRequest, number: int, count: int) -> None:
    """Make every ``count``-th missing part, from ``number`` on."""
    if count > 1:
        torch.set_num_threads(1)
    target = request.load_target()
    job, prompts = _open(request, target)
    parts = [part for part in job.missing() if part % count == number]
    longest = max(len(prompt.prompt_ids) for prompt in prompts)
    decoder = BatchDecoder(target.rows(num_rows=request.options.num_rows,
                                       capacity=longest + request.options.max_new_tokens))
    total = len(parts) * request.options.part_prompts * request.options.max_new_tokens
    with Progress(total, f'corpus {number + 1}/{count}', unit='tokens at most') as progress:
        for part in parts:
            job.make(part, decoder, target.tokenizer.end_ids, progress.add)
        print(f'{progress.units_per_s:.0f} tokens/s')
