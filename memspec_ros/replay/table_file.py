# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Goal tables as one safetensors file, predictions included, so that replay needs no model.

Tensors, with n goals whose output has L tokens each: ``prompt_lengths``, ``num_tokens``,
``max_tokens`` int32 [n]; ``runs`` and ``proposed`` uint8 [sum L, drafts]; ``scores`` and
``rates`` float32 [sum (L + 1), ranked drafts], both empty without predictions. Metadata:
``format`` (memspec-goals-1), ``drafts``, ``ranked``, ``names``, ``domains`` (JSON lists),
``max_draft_length``, and ``note`` (JSON: what they were traced with).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from memspec_ros.atomic_file import written_beside
from memspec_ros.errors import DataError
from memspec_ros.prediction.predictor import Prediction
from memspec_ros.replay.goal_table import GoalTable

FORMAT = 'memspec-goals-1'
Arrays = dict[str, npt.NDArray[Any]]


def save_goals(path: Path, tables: Sequence[GoalTable], *, note: str = '{}') -> None:
    """Write goal tables, beside and renamed.

    :raises DataError: no tables, tables of different drafts, or the disk refuses it.
    """
    if not tables or any(set(table.runs) != set(tables[0].runs) for table in tables):
        raise DataError(f'{path}: goal tables of the same drafts are needed')
    drafts = list(tables[0].runs)
    ranked = list(tables[0].predictions[0].scores) if tables[0].predictions else []
    metadata = {'format': FORMAT, 'drafts': json.dumps(drafts), 'ranked': json.dumps(ranked),
                'names': json.dumps([table.name for table in tables]),
                'domains': json.dumps([table.domain for table in tables]),
                'max_draft_length': str(tables[0].max_draft_length), 'note': note}
    with written_beside(path) as file:
        file.write(save(_arrays(tables, drafts, ranked), metadata))


def load_goals(path: Path) -> list[GoalTable]:
    """Read goal tables.

    :raises DataError: the file cannot be read, or holds something else.
    """
    try:
        with safe_open(path, framework='numpy') as file:
            metadata = file.metadata() or {}
            if metadata.get('format') != FORMAT:
                raise DataError(f"{path} has format '{metadata.get('format')}'; goal tables have "
                                f"'{FORMAT}'")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return list(_tables(arrays, metadata))
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise DataError(f'goal tables {path} cannot be read: {error}') from error


def _arrays(tables: Sequence[GoalTable], drafts: list[str], ranked: list[str]) -> Arrays:
    predictions = [prediction for table in tables for prediction in table.predictions]
    return {
        'prompt_lengths': np.array([table.prompt_length for table in tables], np.int32),
        'num_tokens': np.array([table.num_tokens for table in tables], np.int32),
        'max_tokens': np.array([table.max_tokens for table in tables], np.int32),
        'runs': np.concatenate([_columns(table.runs, drafts, table) for table in tables]),
        'proposed': np.concatenate([_columns(table.proposed, drafts, table)
                                    for table in tables]),
        'scores': _rows([prediction.scores for prediction in predictions], ranked),
        'rates': _rows([prediction.rates for prediction in predictions
                        if prediction.rates is not None], ranked)}


def _columns(values: Any, drafts: list[str], table: GoalTable) -> npt.NDArray[np.uint8]:
    default = [table.max_draft_length] * table.num_tokens
    columns = np.array([values.get(draft, default) for draft in drafts], np.uint8)
    return np.ascontiguousarray(columns.reshape(len(drafts), -1).T)


def _rows(values: Sequence[Any], ranked: list[str]) -> npt.NDArray[np.float32]:
    return np.array([[row[name] for name in ranked] for row in values],
                    np.float32).reshape(len(values), len(ranked))


def _tables(arrays: Arrays, metadata: dict[str, str]) -> Iterator[GoalTable]:
    drafts, names, domains, ranked = (json.loads(metadata[name]) for name in (
        'drafts', 'names', 'domains', 'ranked'))
    lengths = arrays['num_tokens'].tolist()
    starts = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    for index, length in enumerate(lengths):
        rows = slice(starts[index], starts[index] + length)
        asked = slice(starts[index] + index, starts[index] + index + length + 1)
        yield GoalTable(
            name=names[index], domain=domains[index], num_tokens=length,
            prompt_length=int(arrays['prompt_lengths'][index]),
            max_tokens=int(arrays['max_tokens'][index]),
            max_draft_length=int(metadata['max_draft_length']),
            runs=_lists(arrays['runs'][rows], drafts),
            proposed=_lists(arrays['proposed'][rows], drafts),
            predictions=_predictions(arrays['scores'][asked], arrays['rates'][asked], ranked))


def _lists(columns: npt.NDArray[np.uint8], drafts: list[str]) -> dict[str, list[int]]:
    return {draft: columns[:, number].tolist() for number, draft in enumerate(drafts)}


def _predictions(scores: npt.NDArray[np.float32], rates: npt.NDArray[np.float32],
                 ranked: list[str]) -> list[Prediction]:
    known = len(rates) == len(scores)
    return [Prediction(scores=dict(zip(ranked, row.tolist(), strict=True)),
                       rates=dict(zip(ranked, rates[number].tolist(), strict=True))
                       if known else None) for number, row in enumerate(scores)]
