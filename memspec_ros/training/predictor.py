# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec train-predictor``: trains the ranking heads on traces and measures them on others."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from memspec_ros.atomic_file import written_beside
from memspec_ros.errors import ConfigError, DataError
from memspec_ros.models.model_reference import resolve
from memspec_ros.models.tokenizer_files import load_tokenizer
from memspec_ros.prediction.encoder import MiniLmEncoder, TextOf
from memspec_ros.prediction.fit import FitOptions, Quality, Samples, fit_head, measure_head, merge
from memspec_ros.prediction.predictor_file import INPUTS, KINDS, PredictorFile
from memspec_ros.replay.acceptance_table import AcceptanceTable, read_acceptance_table
from memspec_ros.training.predictor_samples import (
    FeaturesOf,
    SampleOptions,
    samples_of,
    state_features,
    text_features,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``memspec train-predictor``."""
    samples, fit = SampleOptions(), FitOptions()
    parser.add_argument('--trace', required=True, nargs='+', type=Path, metavar='FILE',
                        help='traces to train on (memspec trace --keep-states)')
    parser.add_argument('--eval-trace', nargs='*', type=Path, default=[], metavar='FILE',
                        help='traces to measure on; their prompts must not be in the others')
    parser.add_argument('--output', required=True, type=Path, metavar='FILE',
                        help='the predictor; heads that are only compared lie beside it')
    parser.add_argument('--kind', choices=KINDS, default=KINDS[0],
                        help="target_state: on the target's hidden states; encoder: on MiniLM")
    parser.add_argument('--inputs', nargs='+', choices=INPUTS,
                        default=['both', 'prompt', 'recent'],
                        help='what the heads read; the first one is the predictor')
    parser.add_argument('--drafts', nargs='*', metavar='NAME',
                        help='drafts to rank (default: all of the trace but the n-gram)')
    parser.add_argument('--target', default='', metavar='MODEL',
                        help='where the tokenizer is, for --kind encoder')
    parser.add_argument('--recent-tokens', type=int, default=64, metavar='T')
    parser.add_argument('--draft-length', type=int, default=samples.draft_length)
    parser.add_argument('--horizon', type=int, default=samples.horizon_iterations, metavar='N')
    parser.add_argument('--stride', type=int, default=samples.stride_tokens, metavar='TOKENS')
    parser.add_argument('--hidden', type=int, default=fit.num_hidden)
    parser.add_argument('--epochs', type=int, default=fit.num_epochs)
    parser.add_argument('--seed', type=int, default=fit.seed)
    parser.add_argument('--report', type=Path, metavar='FILE',
                        help='write what was measured, per kind and inputs (JSON, added to)')


def run(args: argparse.Namespace) -> int:
    """Train one head per choice of inputs; print and write how well each ranks."""
    training = [read_acceptance_table(path) for path in args.trace]
    target = training[0].target
    held_out = [read_acceptance_table(path, target=target) for path in args.eval_trace]
    check_disjoint(training, held_out)
    drafts = args.drafts or [name for name in training[0].drafts if name != 'ngram']
    options = SampleOptions(stride_tokens=args.stride, horizon_iterations=args.horizon,
                            draft_length=args.draft_length)
    measured = {}
    for number, inputs in enumerate(args.inputs):
        features_of = _features(args, inputs)
        head = fit_head(_samples(training, drafts, features_of, options), FitOptions(
            num_hidden=args.hidden, num_epochs=args.epochs, seed=args.seed))
        quality = measure_head(head, _samples(held_out, drafts, features_of, options)) \
            if held_out else None
        if quality:
            measured[inputs] = quality
            print(_line(args.kind, inputs, quality))
        path = args.output if number == 0 else _beside(args.output, inputs)
        PredictorFile(head=head, kind=args.kind, inputs=inputs, target=target,
                      recent_tokens=args.recent_tokens, note=_note(args, quality)).save(path)
        print(f'{path} is written')
    if args.report:
        write_report(args.report, args.kind, measured)
    return 0


def check_disjoint(training: Sequence[AcceptanceTable],
                   held_out: Sequence[AcceptanceTable]) -> None:
    """Refuse to measure on prompts that were trained on.

    :raises DataError: how many, and one of them.
    """
    known = {goal.prompt_ids for table in training for goal in table.goals}
    shared = [goal.id for table in held_out for goal in table.goals if goal.prompt_ids in known]
    if shared:
        raise DataError(f'{len(shared)} prompts of --eval-trace are also trained on, the first '
                        f"is '{shared[0]}': measure on prompts that are not in --trace")


def write_report(path: Path, kind: str, measured: dict[str, Quality]) -> None:
    """Add figures to a report: {predictor: {input: {top1, top2, ...}}}."""
    report = json.loads(path.read_text(encoding='utf-8')) if path.is_file() else {}
    report[kind] = {inputs: asdict(quality) for inputs, quality in measured.items()}
    with written_beside(path) as file:
        file.write((json.dumps(report, indent=2) + '\n').encode())


def _samples(tables: Sequence[AcceptanceTable], drafts: Sequence[str], features_of: FeaturesOf,
             options: SampleOptions) -> Samples:
    parts, first_group = [], 0
    for table in tables:
        parts.append(samples_of(table, drafts, features_of, options, first_group=first_group))
        first_group += len(table.goals)
    return merge(parts)


def _features(args: argparse.Namespace, inputs: str) -> FeaturesOf:
    if args.kind == 'target_state':
        return state_features(args.recent_tokens, inputs)
    return text_features(MiniLmEncoder(), _text_of(args.target), args.recent_tokens, inputs)


def _text_of(target: str) -> TextOf:
    if not target:
        raise ConfigError('--kind encoder reads text: name the --target whose tokenizer made it')
    return load_tokenizer(resolve(target)).decode


def _beside(path: Path, inputs: str) -> Path:
    return path.with_name(f'{path.stem}-{inputs}{path.suffix}')


def _line(kind: str, inputs: str, quality: Quality) -> str:
    return (f'{kind} on {inputs}: top-1 {quality.top1:.3f}, top-2 {quality.top2:.3f}, kept '
            f'utility {quality.kept_utility:.3f}, calibration error '
            f'{quality.calibration_error:.3f}, rate error {quality.rate_error:.3f}')


def _note(args: argparse.Namespace, quality: Quality | None) -> str:
    return json.dumps({
        'draft_length': args.draft_length, 'horizon_iterations': args.horizon,
        'seed': args.seed, 'epochs': args.epochs, 'hidden': args.hidden,
        'quality': asdict(quality) if quality else None})
