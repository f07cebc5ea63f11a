# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Matrices as stored: stacking, reordering and rounding."""

from __future__ import annotations

import pytest
import torch

from memspec_ros.errors import ModelFormatError
from memspec_ros.models.matrices import DenseMatrix, GroupedMatrix, quantise, stack


def random_matrix(rows: int, columns: int, seed: int = 0) -> DenseMatrix:
    return DenseMatrix(data=torch.randn(rows, columns,
                                        generator=torch.Generator().manual_seed(seed)))


@pytest.mark.parametrize(('num_bits', 'steps'), [(4, 15), (8, 254)])
def test_rounding_errs_by_half_a_step(num_bits: int, steps: int) -> None:
    matrix = random_matrix(16, 128)
    rounded = quantise(matrix, num_bits=num_bits, group=32)
    grouped = matrix.data.view(16, 4, 32)
    spread = (grouped.amax(-1) - grouped.amin(-1)) if num_bits == 4 else \
        2 * grouped.abs().amax(-1)
    error = (rounded.values() - matrix.data).view(16, 4, 32).abs().amax(-1)
    assert (error <= 0.51 * spread / steps + 2e-3).all()
    assert (rounded.group, rounded.num_bits) == (32, num_bits)


def test_rounding_zeros_gives_zeros() -> None:
    zeros = DenseMatrix(data=torch.zeros(2, 64))
    assert torch.equal(quantise(zeros, num_bits=4, group=32).values(), zeros.data)
    assert torch.equal(quantise(zeros, num_bits=8, group=32).values(), zeros.data)


def test_what_is_rounded_already_is_returned() -> None:
    rounded = quantise(random_matrix(4, 64), num_bits=4, group=32)
    assert quantise(rounded, num_bits=4, group=32) is rounded
    assert quantise(rounded, num_bits=4, group=64) is not rounded


@pytest.mark.parametrize('num_bits', [0, 4, 8])
def test_rows_can_be_reordered(num_bits: int) -> None:
    matrix = random_matrix(6, 64)
    order = torch.tensor([5, 0, 3])
    stored = quantise(matrix, num_bits=num_bits, group=32) if num_bits else matrix
    assert torch.equal(stored.take_rows(order).values(), stored.values()[order])


def test_stacks_keep_their_codes() -> None:
    parts = [quantise(random_matrix(rows, 64, rows), num_bits=4, group=32) for rows in (2, 5)]
    stacked = stack(parts)
    assert isinstance(stacked, GroupedMatrix)
    assert torch.equal(stacked.values(), torch.cat([part.values() for part in parts]))


def test_stacks_with_and_without_minima() -> None:
    four = quantise(random_matrix(2, 64), num_bits=4, group=32)
    bare = GroupedMatrix(codes=four.codes, scales=four.scales, minima=None, num_bits=4)
    stacked = stack([four, bare])
    assert torch.equal(stacked.values(), torch.cat([four.values(), bare.values()]))
    assert stack([bare, bare]).minima is None


def test_stacks_of_different_forms_are_floats() -> None:
    parts = [random_matrix(2, 64), quantise(random_matrix(3, 64), num_bits=4, group=32)]
    stacked = stack(parts)
    assert isinstance(stacked, DenseMatrix)
    assert torch.equal(stacked.values(), torch.cat([part.values() for part in parts]))


def test_stacks_keep_half_precision() -> None:
    half = DenseMatrix(data=torch.ones(2, 4, dtype=torch.float16))
    assert stack([half, half]).data.dtype is torch.float16


def test_columns_must_agree() -> None:
    with pytest.raises(ModelFormatError, match=r'differ in columns: \[\(2, 64\), \(2, 32\)\]'):
        stack([random_matrix(2, 64), random_matrix(2, 32)])
