# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The header of a GGUF file: metadata and the table of tensors, every count checked first.

The layout is that of the GGUF specification, versions 2 and 3. The ``gguf`` package gives types
and block sizes; its own reader is not used, because it makes a numpy view per string (seconds for
a vocabulary) and trusts the counts in the file.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType

from memspec_ros.errors import ModelFormatError, ModelNotFoundError

VERSIONS = (2, 3)
MAX_DIMENSIONS = 4
_MIN_METADATA_BYTES = 8 + 4 + 1
_MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8

_LENGTH = struct.Struct('<Q')
_SCALARS = {
    GGUFValueType.UINT8: 'B', GGUFValueType.INT8: 'b', GGUFValueType.UINT16: 'H',
    GGUFValueType.INT16: 'h', GGUFValueType.UINT32: 'I', GGUFValueType.INT32: 'i',
    GGUFValueType.UINT64: 'Q', GGUFValueType.INT64: 'q', GGUFValueType.FLOAT32: 'f',
    GGUFValueType.FLOAT64: 'd', GGUFValueType.BOOL: '?'}


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """Where one tensor lies. ``shape`` is in row-major order, the contiguous dimension last."""

    name: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    offset: int
    num_bytes: int


@dataclass(frozen=True, kw_only=True)
class GgufHeader:
    """Metadata by key, and tensors by name, of one file."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]
    num_bytes: int


def read_header(path: Path) -> GgufHeader:
    """Read and check a GGUF header.

    :raises ModelNotFoundError: there is no such file.
    :raises ModelFormatError: not GGUF, another version, truncated, or counts that cannot be; the
        message names the file, what was found and what was expected.
    """
    try:
        size = path.stat().st_size
        data = np.asarray(np.memmap(path, mode='r') if size else np.empty(0, np.uint8))
    except FileNotFoundError as error:
        raise ModelNotFoundError(f'model file {path} does not exist') from error
    except OSError as error:
        raise ModelFormatError(f'model file {path} cannot be read: {error}') from error
    return _HeaderReader(path, data.data).read()


class _HeaderReader:
    """A cursor over the file that never steps past its end."""

    def __init__(self, path: Path, data: memoryview) -> None:
        self._path = path
        self._data = data
        self._at = 0

    def read(self) -> GgufHeader:
        """Read the whole header."""
        self._check_magic()
        num_tensors = self._count(_MIN_TENSOR_BYTES, 'tensors', at=8)
        num_entries = self._count(_MIN_METADATA_BYTES, 'metadata entries', at=16)
        self._at = 24
        metadata = self._collect(num_entries, self._entry, 'metadata key')
        found = self._collect(num_tensors, self._tensor, 'tensor')
        start = self._data_start(metadata)
        tensors = {name: self._place(name, start, *parts) for name, parts in found.items()}
        return GgufHeader(path=self._path, metadata=metadata, tensors=tensors,
                          num_bytes=len(self._data))

    def _fail(self, what: str) -> ModelFormatError:
        return ModelFormatError(f'{self._path}: {what}')

    def _check_magic(self) -> None:
        magic, version = self._unpack('<4sI', 'the GGUF magic and version')
        if magic != b'GGUF':
            raise self._fail(f"not a GGUF file: it starts with {magic!r}, expected b'GGUF'")
        if version not in VERSIONS:
            raise self._fail(f'GGUF version is {version}, expected 2 or 3 (little-endian)')

    def _unpack(self, layout: str, what: str) -> tuple[Any, ...]:
        num_bytes = struct.calcsize(layout)
        self._need(num_bytes, what)
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += num_bytes
        return values

    def _need(self, num_bytes: int, what: str) -> None:
        if num_bytes > len(self._data) - self._at:
            raise self._fail(f'truncated: {what} at byte {self._at} needs {num_bytes} bytes, '
                             f'the file has {len(self._data) - self._at} left')

    def _count(self, min_bytes: int, what: str, *, at: int) -> int:
        self._at = at
        count = int(self._unpack('<Q', f'the number of {what}')[0])
        self._check_count(count, min_bytes, what)
        return count

    def _check_count(self, count: int, min_bytes: int, what: str) -> None:
        room = len(self._data) - self._at
        if count * min_bytes > room:
            raise self._fail(f'it claims {count} {what} at byte {self._at}, of {min_bytes} bytes '
                             f'or more each, but only {room} bytes are left')

    def _collect(self, count: int, read: Callable[[], tuple[str, Any]],
                 what: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(count):
            name, value = read()
            if name in found:
                raise self._fail(f"{what} '{name}' occurs twice")
            found[name] = value
        return found

    def _string(self, what: str) -> str:
        num_bytes = self._unpack('<Q', f'the length of {what}')[0]
        self._need(num_bytes, what)
        raw = bytes(self._data[self._at:self._at + num_bytes])
        self._at += num_bytes
        try:
            return raw.decode('utf-8')
        except UnicodeDecodeError as error:
            raise self._fail(f'{what} before byte {self._at} is not UTF-8: {error}') from error

    def _strings(self, key: str, count: int) -> list[str]:
        # A vocabulary has a hundred thousand of them: the loop is flat, only the error path not.
        found: list[bytes] = []
        at, data, end = self._at, self._data, len(self._data)
        for _ in range(count):
            start = at + 8
            at = start + _LENGTH.unpack_from(data, at)[0] if start <= end else end + 1
            if at > end:
                self._at = start
                raise self._fail(f"truncated: item {len(found)} of '{key}' at byte {start} passes "
                                 f'the end at {end}')
            found.append(bytes(data[start:at]))
        self._at = at
        try:
            return [raw.decode() for raw in found]
        except UnicodeDecodeError as error:
            raise self._fail(f"an item of '{key}' is not UTF-8: {error}") from error

    def _entry(self) -> tuple[str, Any]:
        key = self._string('a metadata key')
        return key, self._value(key, self._kind(key))

    def _kind(self, key: str) -> GGUFValueType:
        number = self._unpack('<I', f"the type of '{key}'")[0]
        try:
            return GGUFValueType(number)
        except ValueError as error:
            raise self._fail(f"'{key}' has value type {number}, expected 0 to 12") from error

    def _value(self, key: str, kind: GGUFValueType) -> Any:
        if kind == GGUFValueType.STRING:
            return self._string(f"'{key}'")
        if kind == GGUFValueType.ARRAY:
            return self._array(key)
        return self._unpack(f'<{_SCALARS[kind]}', f"'{key}'")[0]

    def _array(self, key: str) -> list[Any]:
        kind = self._kind(key)
        count = self._unpack('<Q', f"the length of '{key}'")[0]
        if kind == GGUFValueType.ARRAY:
            raise self._fail(f"'{key}' is an array of arrays, which no model here has")
        if kind == GGUFValueType.STRING:
            self._check_count(count, 8, f"strings of '{key}'")
            return self._strings(key, count)
        self._check_count(count, struct.calcsize(_SCALARS[kind]), f"items of '{key}'")
        return list(self._unpack(f'<{count}{_SCALARS[kind]}', f"'{key}'"))

    def _tensor(self) -> tuple[str, Any]:
        name = self._string('a tensor name')
        num_dimensions = self._unpack('<I', f"the dimensions of '{name}'")[0]
        if not 1 <= num_dimensions <= MAX_DIMENSIONS:
            raise self._fail(f"tensor '{name}' has {num_dimensions} dimensions, expected 1 to "
                             f'{MAX_DIMENSIONS}')
        dimensions = self._unpack(f'<{num_dimensions}Q', f"the shape of '{name}'")
        kind, offset = self._unpack('<IQ', f"the type and offset of '{name}'")
        return name, (tuple(reversed(dimensions)), kind, offset)

    def _data_start(self, metadata: dict[str, Any]) -> int:
        alignment = metadata.get('general.alignment', 32)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise self._fail(f'general.alignment is {alignment!r}, expected a power of two')
        return -(-self._at // alignment) * alignment

    def _place(self, name: str, start: int, shape: tuple[int, ...], number: int,
               offset: int) -> TensorInfo:
        try:
            kind = GGMLQuantizationType(number)
        except ValueError as error:
            raise self._fail(f"tensor '{name}' has unknown type {number}") from error
        block, block_bytes = GGML_QUANT_SIZES[kind]
        if shape[-1] % block or min(shape) < 1:
            raise self._fail(f"tensor '{name}' has shape {list(shape)}, expected rows of a "
                             f'multiple of {block} for {kind.name}')
        num_bytes = math.prod(shape) // block * block_bytes
        if start + offset + num_bytes > len(self._data):
            raise self._fail(
                f"truncated: tensor '{name}' of shape {list(shape)} ends at byte "
                f'{start + offset + num_bytes}, the file has {len(self._data)}')
        return TensorInfo(name=name, shape=shape, kind=kind, offset=start + offset,
                          num_bytes=num_bytes)
