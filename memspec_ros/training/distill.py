# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec distill``: trains the drafts of a pool."""

from __future__ import annotations

import argparse
from pathlib import Path

from memspec_ros.models.draft_file import KINDS
from memspec_ros.models.draft_storage import STORAGES
from memspec_ros.training.distill_data import Split, read_corpora
from memspec_ros.training.distill_pool import GENERAL, DistillOptions, PoolDistiller
from memspec_ros.training.draft_loss import LossOptions
from memspec_ros.training.trained_target import TrainedTarget
from memspec_ros.training.trainer import TrainerOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``memspec distill``."""
    defaults = DistillOptions()
    parser.add_argument('--target', required=True, metavar='MODEL',
                        help='a path, pkg:MODULE/FILE or hf:ORG/NAME')
    parser.add_argument('--tokenizer', default='', metavar='PATH')
    parser.add_argument('--corpus', required=True, nargs='+', type=Path, metavar='FILE',
                        help='corpora, or folders of finished parts')
    parser.add_argument('--output', required=True, type=Path, metavar='FOLDER',
                        help='the pool: pool.yaml, a file per draft, metrics; drafts that are '
                        'there are kept')
    parser.add_argument('--start', type=Path, metavar='FILE',
                        help='a draft that the general one goes on from')
    parser.add_argument('--domains', nargs='*', metavar='NAME',
                        help='specialists to train (default: every domain of the corpora)')
    parser.add_argument('--cache', type=Path, metavar='FOLDER',
                        help="where computed states are kept (default: OUTPUT's .states)")
    sizes = parser.add_argument_group('draft')
    sizes.add_argument('--kind', choices=KINDS, default=defaults.kind)
    for name in ('rows', 'width', 'layers', 'intermediate', 'window'):
        sizes.add_argument(f'--{name}', type=int, default=getattr(defaults, name))
    sizes.add_argument('--storage', choices=STORAGES, default=defaults.storage)
    _add_training_arguments(parser, defaults)


def _add_training_arguments(parser: argparse.ArgumentParser, defaults: DistillOptions) -> None:
    group = parser.add_argument_group('training')
    group.add_argument('--epochs', type=float, default=defaults.general.epochs)
    group.add_argument('--rate', type=float, default=defaults.general.rate)
    group.add_argument('--specialist-epochs', type=float, default=defaults.specialist.epochs)
    group.add_argument('--specialist-rate', type=float, default=defaults.specialist.rate)
    group.add_argument('--blend', type=float, default=defaults.blend,
                       help='how much of its training a specialist keeps')
    group.add_argument('--batch-slots', type=int, default=defaults.general.slots_per_batch)
    group.add_argument('--specialist-batch-slots', type=int,
                       default=defaults.specialist.slots_per_batch)
    group.add_argument('--checkpoint-steps', type=int,
                       default=defaults.general.checkpoint_steps)
    group.add_argument('--steps-unrolled', type=int, default=defaults.loss.num_steps)
    group.add_argument('--soft-weight', type=float, default=defaults.loss.soft_weight,
                       help="share of the target's probabilities in the loss")
    group.add_argument('--prompt-share', type=float, default=defaults.loss.prompt_share,
                       help="share of the prompts' positions that are learned from")
    group.add_argument('--seed', type=int, default=0)


def run(args: argparse.Namespace) -> int:
    """Train a pool, or go on with it."""
    target = TrainedTarget.load(args.target, tokenizer=args.tokenizer)
    split = Split.make(read_corpora(args.corpus, target, args.cache or args.output / '.states'))
    distiller = PoolDistiller(args.output, target, split, _options(args), reference=args.target)
    print(f'{distiller.general(args.start)} is trained')
    found = sorted({item.domain for item in split.train} - {GENERAL})
    for domain in found if args.domains is None else args.domains:
        print(f'{distiller.specialist(domain)} is trained')
    return 0


def _options(args: argparse.Namespace) -> DistillOptions:
    common = {'seed': args.seed, 'checkpoint_steps': args.checkpoint_steps}
    return DistillOptions(
        kind=args.kind, layers=args.layers, rows=args.rows, width=args.width,
        intermediate=args.intermediate, window=args.window, storage=args.storage,
        blend=args.blend,
        general=TrainerOptions(epochs=args.epochs, rate=args.rate,
                               slots_per_batch=args.batch_slots, **common),
        specialist=TrainerOptions(epochs=args.specialist_epochs, rate=args.specialist_rate,
                                  adam_rate=1e-3, slots_per_batch=args.specialist_batch_slots,
                                  **common),
        loss=LossOptions(num_steps=args.steps_unrolled, soft_weight=args.soft_weight,
                         prompt_share=args.prompt_share))
