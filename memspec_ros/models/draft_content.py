# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What it takes to bring a draft into a slot: which bytes of which files go where.

Made from headers alone. A draft file fills tensors of the same names; a plain checkpoint fills
fused tensors piece by piece, q, k and v one below the other (draft_checkpoint.py).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from memspec_ros.models.draft_file import OUTPUT_TOKEN_IDS, read_draft_header
from memspec_ros.models.draft_storage import FLOAT_DTYPES
from memspec_ros.models.safetensors_header import SafetensorsHeader, TensorEntry
from memspec_ros.models.slot_forms import MatrixForm

ALIGNMENT_BYTES = 64
NO_FORMS: Mapping[str, MatrixForm] = {}
NONE: Mapping[str, tuple[int, ...]] = {}


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One tensor of a file and the tensor in the slot that it fills, from ``first_row`` on."""

    values: TensorEntry
    fills: str
    first_row: int = 0
    scale: TensorEntry | None = None
    zero: TensorEntry | None = None

    @property
    def columns(self) -> int:
        """Columns of a matrix as a model sees it."""
        return self.values.shape[1] * (2 if self.zero is not None else 1)


@dataclass(frozen=True, kw_only=True)
class FilePart:
    """One file of a draft.

    ``checksum`` is the SHA-256 of its bytes from ``checked_from`` on, '' when none is known;
    ``header_checksum`` that of its header, which must not change between opening and reading.
    """

    path: Path
    file_bytes: int
    data_start: int
    header_checksum: str
    checksum: str
    checked_from: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, kw_only=True)
class DraftContent:
    """A draft as its files' headers describe it.

    ``shapes`` are the slot's tensors; ``output_token_ids`` is one of them when the head is
    trimmed.
    """

    name: str
    kind: str
    architecture: Mapping[str, Any]
    tokenizer_checksum: str
    shapes: Mapping[str, tuple[int, ...]]
    parts: tuple[FilePart, ...]

    @property
    def file_bytes(self) -> int:
        """Bytes of all its files, what a load reads."""
        return sum(part.file_bytes for part in self.parts)


@dataclass(frozen=True, kw_only=True)
class SlotTensor:
    """Where one tensor lies in a slot, ``offset`` in bytes; ``form`` None is plain floats."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    form: MatrixForm | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes it takes."""
        if self.form is not None:
            return self.form.num_bytes(self.shape)
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, kw_only=True)
class SlotLayout:
    """Where a draft's tensors lie in a slot, and how many bytes they take.

    ``form`` is the dtype of its floats: ``fp32``, ``fp16`` or ``bf16``.
    """

    name: str
    form: str
    tensors: Mapping[str, SlotTensor]
    num_bytes: int


def slot_layout(content: DraftContent, form: str, derived: Mapping[str, tuple[int, ...]] = NONE,
                matrix_forms: Mapping[str, MatrixForm] = NO_FORMS, *,
                without: Collection[str] = ()) -> SlotLayout:
    """Lay a draft's tensors out one after the other, each on a cache line of its own.

    :param form: the floats in memory: ``fp32``, ``fp16`` or ``bf16``.
    :param derived: tensors that no file has, computed when the files have been read.
    :param matrix_forms: of matrices that are not to be plain floats.
    :param without: tensors of the file that the draft does without there.
    """
    tensors, offset = {}, 0
    for name, shape in {**content.shapes, **derived}.items():
        if name in without:
            continue
        dtype = torch.int32 if name == OUTPUT_TOKEN_IDS else FLOAT_DTYPES[form]
        tensors[name] = tensor = SlotTensor(shape=shape, dtype=dtype, offset=offset,
                                            form=matrix_forms.get(name))
        offset += -(-tensor.num_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return SlotLayout(name=content.name, form=form, tensors=tensors, num_bytes=offset)


def open_draft_file(path: Path, *, name: str, checksum: str = '') -> DraftContent:
    """Describe a draft file.

    :param checksum: SHA-256 of the whole file; '' relies on the one of the data in the card.
    :raises ModelError: as :func:`~memspec_ros.models.draft_file.read_draft_header`.
    """
    header = read_draft_header(path)
    tensors = header.tensors
    by_name = {entry.name: entry for entry in tensors.entries}
    fills = [item for item in by_name if item in header.shapes or item == OUTPUT_TOKEN_IDS]
    pieces = tuple(Piece(values=by_name[item], fills=item, scale=by_name.get(f'{item}.scale'),
                         zero=by_name.get(f'{item}.zero')) for item in fills)
    shapes = {item: header.shapes.get(item, by_name[item].shape) for item in fills}
    part = file_part(tensors, pieces, checksum or header.card.data_checksum,
                     0 if checksum else tensors.data_start)
    return DraftContent(name=name, kind=header.card.kind, shapes=shapes, parts=(part,),
                        architecture=header.card.architecture,
                        tokenizer_checksum=header.card.tokenizer_checksum)


def file_part(tensors: SafetensorsHeader, pieces: tuple[Piece, ...], checksum: str,
              checked_from: int) -> FilePart:
    """Describe one file whose header has been read."""
    return FilePart(path=tensors.path, file_bytes=tensors.file_bytes, pieces=pieces,
                    data_start=tensors.data_start, checksum=checksum, checked_from=checked_from,
                    header_checksum=hashlib.sha256(tensors.raw).hexdigest())
