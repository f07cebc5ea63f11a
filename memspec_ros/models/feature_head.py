# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The borrowed head of a feature-conditioned draft: rows of the target's head times ``out``.

It can be computed wherever the target is; a file in 8 or 4 bits has it ready, in the very codes
that the native library takes, so that a load does not multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch

from memspec_ros.errors import ModelFormatError
from memspec_ros.models.draft_file import (
    OUTPUT_TOKEN_IDS,
    DraftCard,
    as_stored,
    read_draft_weights,
    read_stored_tensors,
    stored_tensors,
    write_draft_file,
    write_tensors,
)
from memspec_ros.models.draft_storage import FLOAT_DTYPES
from memspec_ros.models.embedding import Embedding, embedding_rows
from memspec_ros.models.slot_reader import ReadCancelledError

HEAD = 'head'
# About a millisecond of the loader's thread, and too few for PyTorch to take more threads.
CHUNK_ROWS = 64


def head_chunks(row_tokens: torch.Tensor, out: torch.Tensor, embedding: Embedding,
                should_cancel: Callable[[], bool] = lambda: False
                ) -> Iterator[tuple[int, torch.Tensor]]:
    """Compute the head of the target's table, some rows at a time.

    :returns: the first row, a multiple of 64, and the rows, [64 or fewer, width].
    :raises ReadCancelledError: ``should_cancel``, asked every millisecond or so, said yes.
    """
    for first in range(0, len(row_tokens), CHUNK_ROWS):
        if should_cancel():
            raise ReadCancelledError
        rows = embedding_rows(embedding, row_tokens[first:first + CHUNK_ROWS].long())
        yield first, rows.to(out.dtype) @ out


def write_feature_draft(path: Path, card: DraftCard, weights: Mapping[str, torch.Tensor],
                        row_tokens: torch.Tensor, rows: torch.Tensor) -> str:
    """Write a draft file, with its head when it is stored in 8 or 4 bits.

    :param rows: the target's rows of ``row_tokens``, [rows, hidden].
    :returns: the file's SHA-256.
    :raises DataError: as :func:`~memspec_ros.models.draft_file.write_draft_file`.
    """
    if card.storage not in FLOAT_DTYPES:
        weights = {**weights, HEAD: rows @ as_stored(weights['out'].detach(), card.storage)}
    return write_draft_file(path, card, weights, row_tokens, grouped=(HEAD,))


def add_head(path: Path, embedding: Embedding) -> str:
    """Add the head to a draft file, or make it anew; all else stays as it is stored.

    :returns: the file's SHA-256.
    :raises ModelFormatError: it is no feature-conditioned draft in 8 or 4 bits, or damaged.
    """
    header, weights = read_draft_weights(path)
    if header.card.kind != 'feature' or header.card.storage in FLOAT_DTYPES:
        raise ModelFormatError(f'{path} is a {header.card.kind} draft in {header.card.storage}; '
                               'only feature drafts in 8 or 4 bits hold their head')
    head = torch.cat([rows for _, rows in head_chunks(
        weights[OUTPUT_TOKEN_IDS], weights['out'], embedding)])
    kept = {name: tensor for name, tensor in read_stored_tensors(path).items()
            if name not in (HEAD, f'{HEAD}.scale')}
    added = stored_tensors(HEAD, head, header.card.storage, is_grouped=True)
    return write_tensors(path, header.card, {**kept, **added})
