# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Weight matrices as a checkpoint stores them, before they take their form in memory.

All are [rows, columns] = [out_features, in_features]. Rows can be reordered and matrices stacked
without leaving the stored precision, so that fused projections keep their 4-bit codes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from memspec_ros.errors import ModelFormatError, UnsupportedModelError

CHUNK_BYTES = 16 << 20
# quantise(): two float16, scale and minimum, per 32 columns
INT4_BITS = 4.0 + 2 * 16.0 / 32


class Matrix(Protocol):
    """What a checkpoint returns for one weight matrix."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    def values(self) -> torch.Tensor:
        """Return the float32 values, [rows, columns]."""

    def take_rows(self, order: torch.Tensor) -> Matrix:
        """Return the rows ``order`` [num_rows], in that order."""


@dataclass(frozen=True, kw_only=True)
class DenseMatrix:
    """Floats: [rows, columns] of float32, float16 or bfloat16."""

    data: torch.Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.data.shape[0], self.data.shape[1]

    def values(self) -> torch.Tensor:
        """Return the float32 values."""
        return self.data.float()

    def take_rows(self, order: torch.Tensor) -> DenseMatrix:
        """Return the rows ``order``."""
        return DenseMatrix(data=self.data[order])


@dataclass(frozen=True, kw_only=True)
class StoredMatrix:
    """Floats that stay in their file until they are wanted, some rows at a time.

    An embedding table of 152k rows is the largest part of a small target: brought into its form
    in pieces, it never lies in memory twice.

    :param read: returns rows from the first up to the last, [rows, columns].
    """

    shape: tuple[int, int]
    dtype: torch.dtype
    read: Callable[[int, int], torch.Tensor]

    def chunks(self) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the first row of each piece, a multiple of 16, and its rows."""
        rows, columns = self.shape
        step = max(16, CHUNK_BYTES // (columns * self.dtype.itemsize) // 16 * 16)
        for first in range(0, rows, step):
            yield first, self.read(first, min(first + step, rows))

    def to(self, dtype: torch.dtype) -> StoredMatrix:
        """Return the same in another dtype, converted as it is read."""
        return StoredMatrix(shape=self.shape, dtype=dtype,
                            read=lambda first, last: self.read(first, last).to(dtype))

    def filled(self, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Return all values on a device, [rows, columns]."""
        values = torch.empty(self.shape, dtype=dtype, device=device)
        for first, rows in self.chunks():
            values[first:first + rows.shape[0]].copy_(rows)
        return values

    def values(self) -> torch.Tensor:
        """Return the float32 values."""
        return self.filled(torch.float32, torch.device('cpu'))

    def take_rows(self, order: torch.Tensor) -> DenseMatrix:
        """Return the rows ``order``."""
        return DenseMatrix(data=self.filled(self.dtype, torch.device('cpu'))[order])


@dataclass(frozen=True, kw_only=True)
class GroupedMatrix:
    """Integer codes with one scale and one minimum per group of columns.

    ``value = code * scale + minimum``; codes are [rows, columns] of uint8 (4 bits, 0 to 15) or
    int8 (8 bits), ``scales`` and ``minima`` [rows, columns / group] of float32 (``minima`` None
    is zero). ``column_order`` [columns], when given, says which column of the matrix each column
    of codes is, so that those of a group lie side by side (GPTQ's act-order).
    """

    codes: torch.Tensor
    scales: torch.Tensor
    minima: torch.Tensor | None
    num_bits: int
    column_order: torch.Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.codes.shape[0], self.codes.shape[1]

    @property
    def group(self) -> int:
        """Columns that share a scale."""
        return self.codes.shape[1] // self.scales.shape[1]

    def values(self) -> torch.Tensor:
        """Return the float32 values; exact, since scales have 11 bits and codes 8 at most."""
        rows, columns = self.shape
        grouped = self.codes.view(rows, -1, self.group).float() * self.scales[..., None]
        if self.minima is not None:
            grouped += self.minima[..., None]
        values = grouped.view(rows, columns)
        if self.column_order is None:
            return values
        ordered = torch.empty_like(values)
        ordered[:, self.column_order] = values
        return ordered

    def take_rows(self, order: torch.Tensor) -> GroupedMatrix:
        """Return the rows ``order``."""
        return GroupedMatrix(codes=self.codes[order], scales=self.scales[order],
                             minima=None if self.minima is None else self.minima[order],
                             num_bits=self.num_bits, column_order=self.column_order)

    def in_groups(self, group: int) -> GroupedMatrix:
        """Return the same with smaller groups, which repeat their scales.

        :param group: columns; must divide those of a group.
        """
        if group == self.group:
            return self
        repeats = self.group // group
        return dataclasses.replace(
            self, scales=self.scales.repeat_interleave(repeats, dim=1),
            minima=None if self.minima is None else self.minima.repeat_interleave(repeats, dim=1))


def have_one_order(matrices: Sequence[Matrix]) -> bool:
    """Whether the columns of all matrices lie in one order, so that they can be stacked."""
    orders = [getattr(matrix, 'column_order', None) for matrix in matrices]
    first = orders[0]
    return all(order is first or (order is not None and first is not None
                                  and torch.equal(order, first)) for order in orders)


def stack(matrices: Sequence[Matrix]) -> Matrix:
    """Stack matrices by rows, in stored precision when all have the same, else as floats.

    :raises ModelFormatError: their columns differ.
    """
    first = matrices[0]
    if len(matrices) == 1:
        return first
    if len({matrix.shape[1] for matrix in matrices}) > 1:
        raise ModelFormatError('matrices of one fused projection differ in columns: '
                               f'{[matrix.shape for matrix in matrices]}')
    grouped = [m for m in matrices if isinstance(m, GroupedMatrix)]
    if len(grouped) == len(matrices) and len({(m.num_bits, m.group) for m in grouped}) == 1 \
            and have_one_order(grouped):
        return _stack_grouped(grouped)
    dense = [m.data for m in matrices if isinstance(m, DenseMatrix)]
    if len(dense) == len(matrices) and len({data.dtype for data in dense}) == 1:
        return DenseMatrix(data=torch.cat(dense))
    return DenseMatrix(data=torch.cat([matrix.values() for matrix in matrices]))


def _stack_grouped(matrices: Sequence[GroupedMatrix]) -> GroupedMatrix:
    minima = [torch.zeros_like(m.scales) if m.minima is None else m.minima for m in matrices]
    no_minima = all(m.minima is None for m in matrices)
    return GroupedMatrix(codes=torch.cat([m.codes for m in matrices]),
                         scales=torch.cat([m.scales for m in matrices]),
                         minima=None if no_minima else torch.cat(minima),
                         num_bits=matrices[0].num_bits, column_order=matrices[0].column_order)


def quantise(matrix: Matrix, *, num_bits: int, group: int) -> GroupedMatrix:
    """Round a matrix to ``num_bits`` codes per group; one already in that form is returned.

    4 bits take a minimum per group, 8 bits are symmetric. Scales and minima have the precision
    of float16, as GGUF files have them.

    :raises UnsupportedModelError: the columns are no multiple of ``group``.
    """
    if isinstance(matrix, GroupedMatrix) and matrix.num_bits == num_bits \
            and matrix.group == group and matrix.column_order is None:
        return matrix
    if matrix.shape[1] % group:
        raise UnsupportedModelError(f'a matrix of {matrix.shape[0]} x {matrix.shape[1]} cannot be '
                                    f'kept in {num_bits} bits: columns must be a multiple of '
                                    f'{group}; set target.dtype to bf16')
    values = matrix.values()
    grouped = values.view(values.shape[0], -1, group)
    if num_bits == 8:
        scales = _to_half(grouped.abs().amax(-1) / 127.0)
        codes = (grouped / scales[..., None]).round_().clamp_(-127, 127)
        return GroupedMatrix(codes=codes.to(torch.int8).view_as(values), scales=scales,
                             minima=None, num_bits=8)
    minima = grouped.amin(-1).half().float()
    scales = _to_half((grouped.amax(-1) - minima) / 15.0)
    codes = ((grouped - minima[..., None]) / scales[..., None]).round_().clamp_(0, 15)
    return GroupedMatrix(codes=codes.to(torch.uint8).view_as(values), scales=scales,
                         minima=minima, num_bits=4)


def _to_half(scales: torch.Tensor) -> torch.Tensor:
    """Round to float16 and back; the smallest normal one stands for zero."""
    return scales.clamp(min=2.0 ** -14).half().float()
