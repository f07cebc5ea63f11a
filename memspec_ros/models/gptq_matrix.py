# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""GPTQ's tensors of one matrix, unpacked into codes in groups; no value changes.

``w[row, column] = (code - zero) * scale``, scale and zero those of the column's group. Codes lie
side by side in 32-bit words along the columns, zero points along the rows, the first in the
lowest bits (AutoGPTQ 0.7.1, nn_modules/qlinear/qlinear_cuda.py, ``pack`` and ``forward``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from memspec_ros.errors import ModelFormatError
from memspec_ros.models.gptq_config import GptqConfig
from memspec_ros.models.matrices import GroupedMatrix


@dataclass(frozen=True, kw_only=True)
class GptqTensors:
    """One matrix as the file has it.

    ``qweight`` int32 [columns * bits / 32, rows], ``qzeros`` int32 [groups, rows * bits / 32],
    ``scales`` floats [groups, rows], ``g_idx`` int [columns] or None.
    """

    qweight: torch.Tensor
    qzeros: torch.Tensor
    scales: torch.Tensor
    g_idx: torch.Tensor | None


def grouped_matrix(name: str, tensors: GptqTensors, config: GptqConfig) -> GroupedMatrix:
    """Return the matrix with its very codes.

    Columns in act-order are put side by side by group, with the order beside them. A row whose
    last group is shorter is described with smaller groups, that repeat their scales.

    :param name: the matrix, for messages.
    :raises ModelFormatError: g_idx is out of range or leaves groups unequal, or a symmetric
        checkpoint has a zero point that is not the middle code.
    """
    columns = tensors.qweight.shape[0] * 32 // config.bits
    order = None if tensors.g_idx is None else _column_order(name, tensors.g_idx, config)
    zeros = unpack_zeros(tensors.qzeros, config)
    check_symmetric(name, zeros, config)
    scales = tensors.scales.float()
    codes = unpack_codes(tensors.qweight, config.bits)
    if order is not None:
        codes = codes[:, order]
    group = math.gcd(config.group(columns), columns)
    shift = config.middle if config.bits == 8 else 0  # codes of 8 bits are signed here
    minima = (shift - zeros.float()) * scales
    if config.bits == 8:
        codes = (codes ^ 0x80).view(torch.int8)
    no_minima = config.bits == 8 and not minima.any()
    return GroupedMatrix(
        codes=codes, scales=_per_row(scales, config, columns, group), num_bits=config.bits,
        minima=None if no_minima else _per_row(minima, config, columns, group),
        column_order=order)


def unpack_codes(qweight: torch.Tensor, bits: int) -> torch.Tensor:
    """Unpack [columns * bits / 32, rows] words to uint8 codes [rows, columns]."""
    words, rows = qweight.shape
    packed = qweight.contiguous().view(torch.uint8).view(words, rows, 4)
    packed = packed.transpose(0, 1).reshape(rows, words * 4)
    return packed if bits == 8 else _halves(packed)


def unpack_zeros(qzeros: torch.Tensor, config: GptqConfig) -> torch.Tensor:
    """Unpack words [groups, rows * bits / 32] to zero points as they are meant [groups, rows]."""
    packed = qzeros.contiguous().view(torch.uint8)
    stored = packed if config.bits == 8 else _halves(packed)
    # Version 1 takes one off modulo 2^bits: AutoGPTQ adds it before it masks.
    return (stored + config.zero_shift) & ((1 << config.bits) - 1)


def _halves(packed: torch.Tensor) -> torch.Tensor:
    """Unpack bytes [n, m] to their halves [n, 2 m], the low one first."""
    codes = torch.empty(packed.shape[0], packed.shape[1], 2, dtype=torch.uint8)
    torch.bitwise_and(packed, 15, out=codes[..., 0])
    torch.bitwise_right_shift(packed, 4, out=codes[..., 1])
    return codes.view(packed.shape[0], -1)


def _per_row(numbers: torch.Tensor, config: GptqConfig, columns: int,
             group: int) -> torch.Tensor:
    """Turn numbers [groups, rows] into [rows, columns / group]."""
    repeats = config.group(columns) // group
    numbers = numbers.t()
    if repeats > 1:
        numbers = numbers.repeat_interleave(repeats, dim=1)[:, :columns // group]
    return numbers.contiguous()


def _column_order(name: str, g_idx: torch.Tensor, config: GptqConfig) -> torch.Tensor | None:
    """Return the columns sorted by group, None when they are."""
    columns = g_idx.numel()
    groups = config.num_groups(columns)
    low, high = int(g_idx.min()), int(g_idx.max())
    if low < 0 or high >= groups:
        raise ModelFormatError(f'{name}.g_idx has groups {low} to {high}; {columns} columns in '
                               f'groups of {config.group(columns)} have 0 to {groups - 1}')
    order = torch.argsort(g_idx, stable=True)
    expected = torch.arange(columns) // config.group(columns)
    if not torch.equal(g_idx[order].long(), expected):
        counts = torch.bincount(g_idx.long(), minlength=groups)
        raise ModelFormatError(f'{name}.g_idx puts {int(counts.min())} to {int(counts.max())} '
                               f'columns into a group; group_size is {config.group(columns)}')
    return None if torch.equal(order, torch.arange(columns)) else order


def check_symmetric(name: str, zeros: torch.Tensor, config: GptqConfig) -> None:
    """Compare zero points with what symmetry makes them.

    A file of version 2 that is taken for version 1, or the other way round, shows here.

    :raises ModelFormatError: one is not the middle code though the checkpoint says ``sym``.
    """
    wrong = zeros[zeros != config.middle]
    if config.symmetric and wrong.numel():
        raise ModelFormatError(
            f'{name}.qzeros has zero point {int(wrong[0])}, but the checkpoint says sym, which '
            f'makes all {config.middle}: sym or checkpoint_format ({config.checkpoint_format}) is '
            'wrong')
