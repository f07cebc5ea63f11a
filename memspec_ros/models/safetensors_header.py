# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The header of a safetensors file: what tensors it has and where, without reading any.

Sizes are checked against the file before anything is allocated, so a damaged or hostile file
costs a few kilobytes at most. Format: 8 bytes of header length (little endian), a JSON object,
then the tensors' bytes without gaps (github.com/huggingface/safetensors, README, "Format").
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from memspec_ros.errors import ModelFormatError, ModelNotFoundError

MAX_HEADER_BYTES = 16 * 2**20
MAX_NUM_DIMENSIONS = 8
DTYPES = {
    'F64': torch.float64, 'F32': torch.float32, 'F16': torch.float16, 'BF16': torch.bfloat16,
    'I64': torch.int64, 'I32': torch.int32, 'I16': torch.int16, 'I8': torch.int8,
    'U8': torch.uint8, 'BOOL': torch.bool,
}


@dataclass(frozen=True, kw_only=True)
class TensorEntry:
    """One tensor of a file: ``start`` and ``stop`` are byte offsets into the whole file."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def num_bytes(self) -> int:
        """Bytes in the file."""
        return self.stop - self.start


@dataclass(frozen=True, kw_only=True)
class SafetensorsHeader:
    """What a file says of itself; ``entries`` are in the order of their bytes.

    ``raw`` is the header as it lies in the file, length included.
    """

    path: Path
    metadata: Mapping[str, str]
    entries: tuple[TensorEntry, ...]
    data_start: int
    file_bytes: int
    raw: bytes = field(repr=False)

    def __getitem__(self, name: str) -> TensorEntry:
        """Return one tensor's entry; ModelFormatError when the file lacks it."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise ModelFormatError(f"{self.path} has no tensor '{name}' ({len(self.entries)} others)")

    @property
    def num_weight_bytes(self) -> int:
        """Bytes of all tensors together."""
        return self.file_bytes - self.data_start


def read_header(path: Path) -> SafetensorsHeader:
    """Read and check a file's header.

    :raises ModelNotFoundError: there is no such file.
    :raises ModelFormatError: it is not safetensors, is truncated, or contradicts itself; the
        message names the file, what was found and what was expected.
    """
    try:
        with open(path, 'rb') as file:
            file_bytes = file.seek(0, 2)
            file.seek(0)
            length = _header_length(path, file.read(8), file_bytes)
            text = file.read(length)
    except FileNotFoundError as error:
        raise ModelNotFoundError(f'no file {path}') from error
    except OSError as error:
        raise ModelFormatError(f'{path} cannot be read: {error}') from error
    return parse_header(Path(path), text, file_bytes)


def parse_header(path: Path, text: bytes, file_bytes: int) -> SafetensorsHeader:
    """Check the JSON part of a header; errors as in :func:`read_header`."""
    document = _parse_json(path, text)
    metadata = document.pop('__metadata__', {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ModelFormatError(f'{path}: __metadata__ must map names to strings')
    data_start = 8 + len(text)
    entries = [_entry(path, name, value, data_start) for name, value in document.items()]
    entries.sort(key=lambda entry: (entry.start, entry.stop))
    _check_without_gaps(path, entries, data_start, file_bytes)
    return SafetensorsHeader(path=path, metadata=metadata, entries=tuple(entries),
                             data_start=data_start, file_bytes=file_bytes,
                             raw=len(text).to_bytes(8, 'little') + text)


def _header_length(path: Path, prefix: bytes, file_bytes: int) -> int:
    if len(prefix) < 8:
        raise ModelFormatError(f'{path} has {file_bytes} bytes; a safetensors file has at least 8')
    length = int.from_bytes(prefix, 'little')
    limit = min(MAX_HEADER_BYTES, file_bytes - 8)
    if length > limit:
        raise ModelFormatError(f'{path} states a header of {length} bytes; at most {limit} are '
                               'possible: the file is truncated or not safetensors')
    return length


def _parse_json(path: Path, text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f'{path}: the header is not JSON: {error}') from error
    if not isinstance(document, dict):
        raise ModelFormatError(f'{path}: the header is a JSON {type(document).__name__}; it must '
                               'be an object')
    return document


def _entry(path: Path, name: str, value: Any, data_start: int) -> TensorEntry:
    where = f"{path}: tensor '{name}'"
    if not isinstance(value, dict) or not {'dtype', 'shape', 'data_offsets'} <= value.keys():
        raise ModelFormatError(f'{where} needs dtype, shape and data_offsets')
    if value['dtype'] not in DTYPES:
        raise ModelFormatError(f'{where} has dtype {value["dtype"]!r}; known are '
                               f'{", ".join(DTYPES)}')
    dtype = DTYPES[value['dtype']]
    shape = _integers(where, 'shape', value['shape'], MAX_NUM_DIMENSIONS)
    offsets = _integers(where, 'data_offsets', value['data_offsets'], 2)
    num_bytes = math.prod(shape) * dtype.itemsize
    if len(offsets) != 2 or offsets[1] - offsets[0] != num_bytes:
        raise ModelFormatError(f'{where} of shape {list(shape)} takes {num_bytes} bytes; its '
                               f'data_offsets are {list(offsets)}')
    return TensorEntry(name=name, dtype=dtype, shape=shape,
                       start=data_start + offsets[0], stop=data_start + offsets[1])


def _integers(where: str, what: str, values: Any, limit: int) -> tuple[int, ...]:
    good = isinstance(values, list) and len(values) <= limit and all(
        type(value) is int and 0 <= value < 2**48 for value in values)
    if not good:
        raise ModelFormatError(f'{where}: {what} must be at most {limit} non-negative integers')
    return tuple(values)


def _check_without_gaps(path: Path, entries: list[TensorEntry], data_start: int,
                        file_bytes: int) -> None:
    expected = data_start
    for entry in entries:
        if entry.start != expected:
            raise ModelFormatError(f"{path}: tensor '{entry.name}' starts at byte {entry.start}; "
                                   f'{expected} was expected')
        expected = entry.stop
    if expected != file_bytes:
        raise ModelFormatError(f'{path} has {file_bytes} bytes; its header describes {expected}: '
                               'the file is truncated or has bytes appended')
