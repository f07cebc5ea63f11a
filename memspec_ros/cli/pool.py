# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec pool``: shows a pool of drafts, or adds a draft to it."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

from memspec_ros.errors import ConfigError

if TYPE_CHECKING:
    from memspec_ros.models.pool import Pool, PoolEntry
    from memspec_ros.models.tokenizer import Tokenizer

MEGABYTE = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``show`` and ``add`` with their options."""
    actions = parser.add_subparsers(dest='pool_action', metavar='ACTION', required=True)
    show = actions.add_parser('show', help='list the drafts, and say which cannot be used and why')
    show.add_argument('pool', metavar='POOL',
                      help='pool description (YAML): a path or pkg:MODULE/FILE')
    show.add_argument('--json', action='store_true', help='print one JSON object')
    add = actions.add_parser('add', help='check a draft, describe it and add it to the pool')
    add.add_argument('pool', metavar='POOL', help='pool description; made when there is none')
    add.add_argument('source', metavar='DRAFT', help='draft file, or folder of a checkpoint')
    add.add_argument('--name', required=True, help='name of the draft in the pool')
    add.add_argument('--domain', default='', help='what it is for (default: as its card says)')
    add.add_argument('--general', action='store_true', help='it is the draft for all domains')
    add.add_argument('--target', default='', metavar='MODEL',
                     help='target of a new pool, as target.model takes it')


def run(args: argparse.Namespace) -> int:
    """Show or extend a pool; 1 when a draft that is shown cannot be used.

    :raises ConfigError, ModelError: the description or a draft is wrong.
    """
    return show(args) if args.pool_action == 'show' else add(args)


def show(args: argparse.Namespace) -> int:
    """Print a pool's drafts with their state."""
    from memspec_ros.models.model_reference import resolve
    from memspec_ros.models.pool import load_pool
    from memspec_ros.models.pool_files import unavailable_drafts
    pool = load_pool(resolve(args.pool))
    reasons = unavailable_drafts(pool)
    if args.json:
        print(json.dumps(pool_as_json(pool, reasons), ensure_ascii=False))
    else:
        print(f'{pool.name}: {len(pool.drafts)} drafts for {pool.target}')
        for entry in pool.drafts:
            print(entry_line(entry, reasons.get(entry.name, '')))
    return 1 if reasons else 0


def add(args: argparse.Namespace) -> int:
    """Add a draft, and print its line."""
    from memspec_ros.models.pool_files import add_draft
    pool = existing_or_new(args)
    pool = add_draft(pool, Path(args.source), name=args.name, domain=args.domain,
                     general=args.general, target_tokens=tokens_to_compare(pool, args))
    print(f'{pool.path}: {len(pool.drafts)} drafts for {pool.target}')
    print(entry_line(pool[args.name], ''))
    return 0


def existing_or_new(args: argparse.Namespace) -> Pool:
    """Return the pool of the file, or an empty one to be written there.

    :raises ConfigError: a new pool without a target, or an old one with another target.
    """
    from memspec_ros.models.pool import Pool, load_pool
    path = Path(args.pool)
    if path.exists():
        pool = load_pool(path)
        if args.target and args.target != pool.target:
            raise ConfigError(f"pool {path} is for the target '{pool.target}', not "
                              f"'{args.target}'")
        return pool
    if not args.target:
        raise ConfigError(f'there is no pool {path}; to make it, name its target with --target')
    return Pool(name=path.stem, target=args.target, drafts=(), path=path)


def tokens_to_compare(pool: Pool, args: argparse.Namespace) -> Tokenizer | None:
    """Return the target's tokens for a checkpoint; a draft file has their checksum in it."""
    if not Path(args.source).is_dir():
        return None
    from memspec_ros.models.model_reference import resolve
    from memspec_ros.models.tokenizer_files import load_tokenizer
    return load_tokenizer(resolve(pool.target))


def entry_line(entry: PoolEntry, reason: str) -> str:
    """Return one line about a draft."""
    size = f'{entry.num_bytes / MEGABYTE:.1f} MB' if entry.num_bytes else 'size not stated'
    rows = f', {entry.output_rows} output rows' if entry.output_rows else ''
    where = f'hf:{entry.hf}' if entry.hf else entry.file
    state = f'CANNOT BE USED: {reason}' if reason else 'usable'
    return f'  {entry.name} ({entry.domain}): {entry.dtype}, {size}{rows}, {where}: {state}'


def pool_as_json(pool: Pool, reasons: dict[str, str]) -> dict[str, object]:
    """Return the object that --json prints."""
    return {'name': pool.name, 'target': pool.target, 'general': pool.general_draft,
            'predictor': pool.predictor, 'drafts': [
                {**dataclasses.asdict(entry), 'usable': entry.name not in reasons,
                 'reason': reasons.get(entry.name, '')} for entry in pool.drafts]}
