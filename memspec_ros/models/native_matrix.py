# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Matrices in the native library's packed form, whose values are exactly the checkpoint's.

The library rounds activations, not weights: to int8 with one scale per 32 columns, so a product's
error is at most sum over groups of max|x| / 254 * sum|w|.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from memspec_ros.errors import BudgetError, UnsupportedModelError
from memspec_ros.models import native_library as native
from memspec_ros.models.matrices import DenseMatrix, GroupedMatrix, Matrix, StoredMatrix

ALIGNMENT = 64
_CHUNK_BYTES = 32 << 20
_DENSE_KINDS = {torch.float32: native.FP32, torch.float16: native.FP16,
                torch.bfloat16: native.BF16}


class Storage(Protocol):
    """Where packed matrices get their memory from."""

    def take(self, num_bytes: int) -> torch.Tensor:
        """Return ``num_bytes`` of uint8, aligned to 64 bytes."""


class GrowingStorage:
    """Memory in large pieces, on huge pages where the kernel has them.

    Weights are streamed once a pass; with 4 KiB pages a good part of that is address look-ups.
    """

    def __init__(self) -> None:
        self._free: torch.Tensor = torch.empty(0, dtype=torch.uint8)

    def take(self, num_bytes: int) -> torch.Tensor:
        """Return aligned memory; what is never written takes no room."""
        num_bytes = _rounded(num_bytes)
        if num_bytes > self._free.numel():
            self._free = _map_memory(max(num_bytes, _CHUNK_BYTES))
        taken, self._free = self._free[:num_bytes], self._free[num_bytes:]
        return taken


class FixedStorage:
    """Memory of a given tensor, a draft's slot for example.

    :param memory: uint8, aligned to 64 bytes.
    """

    def __init__(self, memory: torch.Tensor) -> None:
        self._free = memory

    def take(self, num_bytes: int) -> torch.Tensor:
        """Return the next piece.

        :raises BudgetError: the memory is used up.
        """
        num_bytes = _rounded(num_bytes)
        if num_bytes > self._free.numel():
            raise BudgetError(f'packed weights need {num_bytes} more bytes, '
                              f'{self._free.numel()} are left')
        taken, self._free = self._free[:num_bytes], self._free[num_bytes:]
        return taken


def _rounded(num_bytes: int) -> int:
    return -(-num_bytes // ALIGNMENT) * ALIGNMENT


def _map_memory(num_bytes: int) -> torch.Tensor:
    memory = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, 'MADV_HUGEPAGE'):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)


@dataclass(frozen=True, kw_only=True)
class PackedMatrix:
    """A matrix in panels of 16 rows (native/src/panel.hpp).

    ``kind``, ``scale_kind`` and ``offset`` are constants of native_library; ``data`` is uint8.
    """

    kind: int
    rows: int
    columns: int
    group: int
    scale_kind: int
    offset: int
    data: torch.Tensor

    @property
    def num_bytes(self) -> int:
        """Bytes that it takes."""
        return self.data.numel()

    def struct(self) -> native.MatrixStruct:
        """Return its description for the library; ``data`` must be kept alive."""
        return native.MatrixStruct(self.kind, self.rows, self.columns, self.group,
                                   self.scale_kind, self.offset, self.data.data_ptr())

    def row(self, index: int) -> torch.Tensor:
        """Return the float32 values of one row, [columns]."""
        return self.some_rows([index])[0]

    def some_rows(self, indices: Sequence[int]) -> torch.Tensor:
        """Return the float32 values of rows, [indices, columns]; some microseconds each.

        :raises ModelError: there is no such row.
        """
        struct, unpack = self.struct(), native.load().memspec_unpack_row
        values = torch.empty(len(indices), self.columns)
        for place, index in enumerate(indices):
            native.check(unpack(struct, index, values.data_ptr() + 4 * self.columns * place),
                         f'row {index} of a matrix of {self.rows}')
        return values

    def values(self) -> torch.Tensor:
        """Return the float32 values, [rows, columns]; slow, for tests and checks."""
        return self.some_rows(range(self.rows))


def pack(matrix: Matrix, storage: Storage) -> PackedMatrix:
    """Bring a matrix into panels, in its stored precision.

    :raises UnsupportedModelError: groups that the library has no kernels for.
    """
    if isinstance(matrix, GroupedMatrix):
        return _pack_grouped(matrix, storage)
    if isinstance(matrix, StoredMatrix) and matrix.dtype in _DENSE_KINDS:
        return _pack_stored(matrix, storage)
    if isinstance(matrix, DenseMatrix) and matrix.data.dtype in _DENSE_KINDS:
        return _pack_dense(matrix.data, storage)
    return _pack_dense(matrix.values(), storage)


def _pack_grouped(matrix: GroupedMatrix, storage: Storage) -> PackedMatrix:
    rows, columns = matrix.shape
    kind = {4: native.INT4, 8: native.INT8}[matrix.num_bits]
    offset, minima = _offset(matrix)
    halves = _is_half(matrix.scales) and (minima is None or _is_half(minima))
    struct = native.MatrixStruct(kind, rows, columns, matrix.group,
                                 native.FP16 if halves else native.FP32, offset, None)
    data = _take(struct, storage)
    codes = matrix.codes.contiguous()
    scales = matrix.scales.float().contiguous()
    native.check(native.load().memspec_pack_grouped(
        ctypes.byref(struct), codes.data_ptr(), scales.data_ptr(),
        None if minima is None else minima.data_ptr(), data.data_ptr()), 'packing')
    return _packed(struct, data)


def _offset(matrix: GroupedMatrix) -> tuple[int, torch.Tensor | None]:
    """Return how codes are shifted, and the minima to store, if any."""
    if matrix.num_bits == 8:
        if matrix.minima is not None:
            raise UnsupportedModelError('the native decoder has no 8-bit codes with minima')
        return native.NO_OFFSET, None
    minima = torch.zeros_like(matrix.scales) if matrix.minima is None else matrix.minima
    if torch.equal(minima, -8.0 * matrix.scales):
        return native.CENTRED, None
    return native.MINIMUM, minima.float().contiguous()


def _is_half(numbers: torch.Tensor) -> bool:
    return torch.equal(numbers.half().float(), numbers.float())


def _pack_stored(matrix: StoredMatrix, storage: Storage) -> PackedMatrix:
    """Pack floats piece by piece; panels of 16 rows do not depend on each other."""
    rows, columns = matrix.shape
    whole = _dense_struct(rows, columns, matrix.dtype)
    data = _take(whole, storage)
    row_bytes = native.load().memspec_packed_bytes(ctypes.byref(
        _dense_struct(16, columns, matrix.dtype))) // 16
    for first, values in matrix.chunks():
        part = _dense_struct(values.shape[0], columns, matrix.dtype)
        values = values.contiguous()
        native.check(native.load().memspec_pack_dense(
            ctypes.byref(part), values.data_ptr(), data.data_ptr() + first * row_bytes),
            'packing')
    return _packed(whole, data)


def _dense_struct(rows: int, columns: int, dtype: torch.dtype) -> native.MatrixStruct:
    return native.MatrixStruct(_DENSE_KINDS[dtype], rows, columns, 0, native.FP32,
                               native.NO_OFFSET, None)


def _pack_dense(values: torch.Tensor, storage: Storage) -> PackedMatrix:
    rows, columns = values.shape
    struct = _dense_struct(rows, columns, values.dtype)
    data = _take(struct, storage)
    values = values.contiguous()
    native.check(native.load().memspec_pack_dense(
        ctypes.byref(struct), values.data_ptr(), data.data_ptr()), 'packing')
    return _packed(struct, data)


def _take(struct: native.MatrixStruct, storage: Storage) -> torch.Tensor:
    num_bytes = native.load().memspec_packed_bytes(ctypes.byref(struct))
    if not num_bytes:
        raise UnsupportedModelError(
            f'the native decoder has no kernels for a matrix of {struct.rows} x {struct.columns} '
            f'in groups of {struct.group}: groups must be multiples of 32 that divide the columns')
    return storage.take(num_bytes)


def _packed(struct: native.MatrixStruct, data: torch.Tensor) -> PackedMatrix:
    return PackedMatrix(kind=struct.kind, rows=struct.rows, columns=struct.columns,
                        group=struct.group, scale_kind=struct.scale_kind, offset=struct.offset,
                        data=data)
