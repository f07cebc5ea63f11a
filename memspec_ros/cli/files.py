# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The files that settings name: whether they are there, and how to get those that are not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memspec_ros.config import Settings
from memspec_ros.errors import ConfigError, DependencyError, ModelError, ModelNotFoundError

if TYPE_CHECKING:
    from memspec_ros.models.pool import Pool


@dataclass(frozen=True, kw_only=True)
class NamedFile:
    """A file or folder that a setting names; ``problem`` is empty when it can be used."""

    setting: str
    reference: str
    path: str = ''
    problem: str = ''


def named_files(settings: Settings) -> list[NamedFile]:
    """Return every file that the settings name, the drafts of the pool included.

    Nothing is downloaded: what a hub would have to give counts as missing.
    """
    os.environ['HF_HUB_OFFLINE'] = '1'
    return list(_named_files(settings))


def _named_files(settings: Settings) -> Iterator[NamedFile]:
    yield _located('target.model', settings.target.model)
    if settings.target.tokenizer:
        yield _located('target.tokenizer', settings.target.tokenizer)
    if settings.draft.pool:
        yield from _files_of_pool(settings)
    if settings.runtime.predictor:
        yield _located('runtime.predictor', settings.runtime.predictor)


def _located(setting: str, reference: str) -> NamedFile:
    from memspec_ros.models.model_reference import resolve
    try:
        path = resolve(reference)
    except (ConfigError, ModelError, DependencyError) as error:
        is_absent = isinstance(error, ModelNotFoundError) and reference.startswith('hf:')
        return NamedFile(setting=setting, reference=reference,
                         problem=how_to_get(reference) if is_absent else str(error))
    return NamedFile(setting=setting, reference=reference, path=str(path))


def how_to_get(reference: str) -> str:
    """Say how to get what is in a hub; ``resolve`` would say why it could not fetch it."""
    name, _, revision = reference.removeprefix('hf:').partition('@')
    wanted = f' --revision {revision}' if revision else ''
    return (f'{reference} is not in the Hugging Face cache: the node fetches it where there is a '
            f'network, or get it with: hf download {name}{wanted}')


def _files_of_pool(settings: Settings) -> Iterator[NamedFile]:
    from memspec_ros.models.pool import load_pool
    description = _located('draft.pool', settings.draft.pool)
    pool = None
    if not description.problem:
        try:
            pool = load_pool(Path(description.path)).select(settings.draft.names)
        except ConfigError as error:
            description = NamedFile(setting='draft.pool', reference=settings.draft.pool,
                                    path=description.path, problem=str(error))
    yield description
    if pool is not None:
        yield from _drafts_of(pool)


def _drafts_of(pool: Pool) -> Iterator[NamedFile]:
    from memspec_ros.models.pool_files import draft_path, unavailable_drafts
    reasons = unavailable_drafts(pool)
    for entry in pool.drafts:
        reason = reasons.get(entry.name, '')
        yield NamedFile(setting=f'draft {entry.name}', problem=reason,
                        reference=f'hf:{entry.hf}' if entry.hf else entry.file,
                        path='' if reason else str(draft_path(pool, entry)))
