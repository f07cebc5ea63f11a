# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Prompts from JSON lines, from a `datasets` name, or of our own writing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from memspec_ros.errors import DataError, DependencyError
from memspec_ros.models.tokenizer import Tokenizer
from memspec_ros.records import ChatMessage
from memspec_ros.training.corpus_job import TokenizedPrompt
from memspec_ros.training.robot_prompts import robot_prompts

OWN_ROBOT = 'own:robot'


def read_prompts(source: str, *, domain: str = '') -> Iterator[dict[str, str]]:
    """Yield id, domain and prompt.

    :param source: a JSONL file; ``own:robot[:COUNT]``; or ``datasets:NAME[:CONFIG[:SPLIT]]``.
    :param domain: for rows that name none.
    :raises DataError: the file cannot be read, or a row has no prompt or domain.
    :raises DependencyError: a data set's name without the package `datasets`.
    """
    if source.startswith(OWN_ROBOT):
        _, _, count = source[len(OWN_ROBOT):].partition(':')
        yield from robot_prompts(int(count or 1000))
    elif source.startswith('datasets:'):
        yield from _rows(source, _from_datasets(source[len('datasets:'):]), domain)
    else:
        yield from _rows(source, _from_file(Path(source)), domain)


def tokenize(rows: Iterable[dict[str, str]], tokenizer: Tokenizer, *,
             max_prompt_tokens: int) -> tuple[list[TokenizedPrompt], int]:
    """Put prompts under the chat template.

    :returns: the prompts, and how many were left out because they are longer than
        ``max_prompt_tokens``.
    """
    prompts, num_long = [], 0
    for row in rows:
        ids = tokenizer.encode_chat([ChatMessage(role='user', content=row['prompt'])])
        if len(ids) > max_prompt_tokens:
            num_long += 1
        else:
            prompts.append(TokenizedPrompt(id=row['id'], domain=row['domain'],
                                           prompt_ids=tuple(ids)))
    return prompts, num_long


def _from_file(path: Path) -> Iterator[Any]:
    try:
        # Texts may hold U+2028, so only a newline ends a row.
        lines = path.read_text(encoding='utf-8').split('\n')
        for line in lines:
            if line.strip():
                yield json.loads(line)
    except (OSError, ValueError) as error:
        raise DataError(f'prompts {path} cannot be read: {error}') from error


def _from_datasets(name: str) -> Iterator[Any]:
    try:
        import datasets  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError as error:
        raise DependencyError('prompts by data set name need the package datasets: '
                              'pip install datasets') from error
    path, config, split = (*name.split(':'), '', '')[:3]
    yield from datasets.load_dataset(path, config or None, split=split or 'train')


def _rows(source: str, rows: Iterable[Any], domain: str) -> Iterator[dict[str, str]]:
    for number, row in enumerate(rows):
        prompt = row.get('prompt') if isinstance(row, dict) else None
        named = (row.get('domain') or domain) if isinstance(row, dict) else ''
        if not isinstance(prompt, str) or not prompt.strip():
            raise DataError(f"{source}: row {number} has no 'prompt'")
        if not isinstance(named, str) or not named:
            raise DataError(f'{source}: row {number} names no domain; give one with --domain')
        yield {'id': str(row.get('id', f'{source}:{number}')), 'domain': named, 'prompt': prompt}
