# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Forms of a draft's matrices in a slot that are not plain floats, written some rows at a time.

Rows are independent of each other in all of them, so a file is brought into its form on the way
from disk, through buffers of a few rows.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Protocol

import torch

from memspec_ros.models import native_library as native
from memspec_ros.models.matrices import DenseMatrix, GroupedMatrix, Matrix, quantise
from memspec_ros.models.native_matrix import ALIGNMENT, PackedMatrix
from memspec_ros.models.weights import GROUP_COLUMNS, pack_cuda

ROW_STEP = 16  # rows are written in multiples of it, but for the last ones
_NATIVE_FLOATS = {'fp32': (native.FP32, torch.float32), 'fp16': (native.FP16, torch.float16),
                  'bf16': (native.BF16, torch.bfloat16)}
Shape = tuple[int, ...]


class MatrixForm(Protocol):
    """How a matrix [rows, columns] lies in memory."""

    def num_bytes(self, shape: Shape) -> int:
        """Bytes that it takes."""

    def write(self, memory: torch.Tensor, shape: Shape, first_row: int, chunk: Matrix) -> None:
        """Bring rows into the form.

        :param memory: uint8 [num_bytes], on a cache line's border.
        :param first_row: a multiple of 16.
        :param chunk: consecutive rows, a multiple of 16 but for the last ones.
        """


@dataclass(frozen=True, kw_only=True)
class FormedMatrix:
    """A matrix of a slot in its form."""

    form: MatrixForm
    shape: Shape
    memory: torch.Tensor

    def write(self, first_row: int, chunk: Matrix) -> None:
        """Bring rows into the form, from ``first_row`` on."""
        self.form.write(self.memory, self.shape, first_row, chunk)


class NativeForm:
    """Panels of the native library.

    :param dtype: ``fp32``, ``fp16``, ``bf16``, ``int8`` or ``int4`` (scale and minimum in
        float16 per 32 columns).
    :param group: columns that share a scale in ``int8``; 0 for one scale a row.
    """

    def __init__(self, dtype: str, group: int = 0) -> None:
        self.dtype = dtype
        self._group = group

    def num_bytes(self, shape: Shape) -> int:
        """Bytes that it takes."""
        return int(native.load().memspec_packed_bytes(ctypes.byref(self._struct(*shape))))

    def write(self, memory: torch.Tensor, shape: Shape, first_row: int, chunk: Matrix) -> None:
        """Pack rows. Raises what native_library.check raises."""
        rows, columns = chunk.shape[0], shape[1]
        struct = self._struct(rows, columns)
        place = memory.data_ptr() + self._offset(first_row, columns)
        if self.dtype in _NATIVE_FLOATS:
            values = chunk.values().to(_NATIVE_FLOATS[self.dtype][1]).contiguous()
            native.check(native.load().memspec_pack_dense(
                ctypes.byref(struct), values.data_ptr(), place), 'packing a draft')
            return
        grouped = as_int8(chunk, self._group) if self.dtype == 'int8' else as_int4(chunk)
        codes, scales = grouped.codes.contiguous(), grouped.scales.float().contiguous()
        minima = None if grouped.minima is None else grouped.minima.float().contiguous()
        native.check(native.load().memspec_pack_grouped(
            ctypes.byref(struct), codes.data_ptr(), scales.data_ptr(),
            None if minima is None else minima.data_ptr(), place), 'packing a draft')

    def packed(self, memory: torch.Tensor, columns: int, first_row: int,
               num_rows: int) -> PackedMatrix:
        """Return some rows as a matrix of the library; nothing is copied."""
        struct = self._struct(num_rows, columns)
        start = self._offset(first_row, columns)
        return PackedMatrix(
            kind=struct.kind, rows=num_rows, columns=columns, group=struct.group,
            scale_kind=struct.scale_kind, offset=struct.offset,
            data=memory[start:start + self.num_bytes((num_rows, columns))])

    def _offset(self, first_row: int, columns: int) -> int:
        return first_row // ROW_STEP * self.num_bytes((ROW_STEP, columns))

    def _struct(self, rows: int, columns: int) -> native.MatrixStruct:
        if self.dtype == 'int8':
            return native.MatrixStruct(native.INT8, rows, columns, self._group or columns,
                                       native.FP32, native.NO_OFFSET, None)
        if self.dtype == 'int4':
            return native.MatrixStruct(native.INT4, rows, columns, GROUP_COLUMNS, native.FP16,
                                       native.MINIMUM, None)
        return native.MatrixStruct(_NATIVE_FLOATS[self.dtype][0], rows, columns, 0, native.FP32,
                                   native.NO_OFFSET, None)


class Int8Rows:
    """Codes [rows, columns] and one float32 scale a row, for PyTorch's kernels."""

    def num_bytes(self, shape: Shape) -> int:
        """Bytes that it takes."""
        return self._scales_start(shape) + 4 * shape[0]

    def write(self, memory: torch.Tensor, shape: Shape, first_row: int, chunk: Matrix) -> None:
        """Copy or round rows."""
        grouped = as_int8(chunk)
        codes, scales = self.parts(memory, shape)
        part = slice(first_row, first_row + chunk.shape[0])
        codes[part].copy_(grouped.codes)
        scales[part].copy_(grouped.scales[:, 0])

    def parts(self, memory: torch.Tensor, shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
        """Return codes (int8) and scales as views."""
        start = self._scales_start(shape)
        codes = memory[:shape[0] * shape[1]].view(torch.int8).view(shape)
        return codes, memory[start:start + 4 * shape[0]].view(torch.float32)

    @staticmethod
    def _scales_start(shape: Shape) -> int:
        return -(-shape[0] * shape[1] // ALIGNMENT) * ALIGNMENT


class Int4Tiles:
    """Codes in the order of ``aten::_weight_int4pack_mm``, scale and zero per 32 columns.

    For CUDA. Rows are a multiple of 16, columns of 32.
    """

    def num_bytes(self, shape: Shape) -> int:
        """Bytes that it takes."""
        return self._scales_start(shape) + 4 * shape[0] * shape[1] // GROUP_COLUMNS

    def write(self, memory: torch.Tensor, shape: Shape, first_row: int, chunk: Matrix) -> None:
        """Pack rows on the device; a tile has 8 of them."""
        grouped = as_int4(chunk)
        assert grouped.minima is not None
        tiles, scales = self.parts(memory, shape)
        packed = pack_cuda(grouped.codes.to(memory.device))
        tiles[first_row // 8:first_row // 8 + packed.shape[0]].copy_(packed)
        pairs = torch.stack((grouped.scales, grouped.minima + 8.0 * grouped.scales), dim=-1)
        scales[:, first_row:first_row + chunk.shape[0]].copy_(pairs.transpose(0, 1))

    def parts(self, memory: torch.Tensor, shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
        """Return tiles (int32) and scales (bfloat16 [columns / 32, rows, 2]) as views."""
        rows, columns = shape
        inner = next(inner for inner in (8, 4, 2) if columns % (16 * inner) == 0)
        tiles = memory[:rows * columns // 2].view(torch.int32).view(
            rows // 8, columns // (16 * inner), 32, inner // 2)
        start = self._scales_start(shape)
        scales = memory[start:start + 4 * rows * columns // GROUP_COLUMNS].view(torch.bfloat16)
        return tiles, scales.view(columns // GROUP_COLUMNS, rows, 2)

    @staticmethod
    def _scales_start(shape: Shape) -> int:
        return -(-shape[0] * shape[1] // 2 // ALIGNMENT) * ALIGNMENT


def as_int8(chunk: Matrix, group: int = 0) -> GroupedMatrix:
    """Return rows in 8 bits with a scale per group of columns; codes in that form are kept.

    :param group: 0 for all columns.
    """
    group = group or chunk.shape[1]
    if isinstance(chunk, GroupedMatrix) and chunk.num_bits == 8 and chunk.minima is None \
            and chunk.group == group:
        return chunk
    return quantise(DenseMatrix(data=chunk.values()), num_bits=8, group=group)


def as_int4(chunk: Matrix) -> GroupedMatrix:
    """Return rows in 4 bits per 32 columns; codes of a file in that form are kept."""
    if isinstance(chunk, GroupedMatrix) and chunk.num_bits == 4 \
            and chunk.group % GROUP_COLUMNS == 0:
        return chunk.in_groups(GROUP_COLUMNS)
    return quantise(DenseMatrix(data=chunk.values()), num_bits=4, group=GROUP_COLUMNS)
