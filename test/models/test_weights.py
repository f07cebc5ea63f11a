# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Weights in memory: each form against the float product, and what they take."""

from __future__ import annotations

import pytest
import torch

from memspec_ros.errors import UnsupportedModelError
from memspec_ros.models.checkpoint_forms import CheckpointInForm, weight_bytes
from memspec_ros.models.decoder import Decoder
from memspec_ros.models.matrices import DenseMatrix, GroupedMatrix, quantise
from memspec_ros.models.weights import DenseLinear, Int4Linear, load_weights
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, random_decoder, tiny_config

CPU = torch.device('cpu')


def random_grouped(rows: int, columns: int) -> GroupedMatrix:
    generator = torch.Generator().manual_seed(rows)
    return quantise(DenseMatrix(data=torch.randn(rows, columns, generator=generator)),
                    num_bits=4, group=32)


@pytest.mark.parametrize('width', [1, 2, 3, 4, 5, 8, 16, 33])
@pytest.mark.parametrize('biased', [False, True])
def test_4_bit_products_equal_those_of_the_floats(width: int, biased: bool) -> None:
    matrix = random_grouped(96, 128)
    bias = torch.linspace(-3, 3, 96) if biased else None
    states = torch.randn(width, 128, generator=torch.Generator().manual_seed(width)).bfloat16()
    expected = torch.nn.functional.linear(states.float(), matrix.values(), bias)
    found = Int4Linear(matrix, bias, CPU)(states)
    assert found.dtype is torch.bfloat16
    # scales and results have 8 bits
    assert (found.float() - expected).abs().max() <= 2 ** -7 * expected.abs().max()


def test_4_bit_codes_without_minima() -> None:
    four = random_grouped(32, 64)
    bare = GroupedMatrix(codes=four.codes, scales=four.scales, minima=None, num_bits=4)
    states = torch.ones(1, 64, dtype=torch.bfloat16)
    expected = bare.values().sum(1)
    found = Int4Linear(bare, None, CPU)(states)[0].float()
    assert (found - expected).abs().max() <= 2 ** -7 * expected.abs().max()


def test_leading_dimensions_are_kept() -> None:
    linear = Int4Linear(random_grouped(96, 64), None, CPU)
    assert linear(torch.ones(2, 3, 64, dtype=torch.bfloat16)).shape == (2, 3, 96)


def test_bytes_of_a_linear() -> None:
    assert Int4Linear(random_grouped(96, 64), None, CPU).num_bytes == 96 * 64 // 2 + 96 * 2 * 4
    assert DenseLinear(torch.ones(4, 8)).num_bytes == 128


@pytest.mark.parametrize('tied_head', [True, False])
@pytest.mark.parametrize('dtype', ['fp32', 'bf16', 'int4'])
def test_bytes_of_a_decoder_are_as_estimated(dtype: str, tied_head: bool) -> None:
    config = tiny_config(tied_head=tied_head)
    weights = load_weights(RandomCheckpoint(config), dtype=dtype)
    table_bits = 8.0 * weights.embedding.element_size()
    assert weights.num_bytes == weight_bytes(config, dtype, table_bits=table_bits)


def test_a_4_bit_decoder_follows_its_float_twin() -> None:
    config = tiny_config(num_layers=4)
    rounded = CheckpointInForm(RandomCheckpoint(config), 'int4')
    twin = Decoder(config, load_weights(rounded, dtype='fp32'))
    ours = random_decoder(config, dtype='int4')
    token_ids = torch.arange(40)[None]
    logits = [decoder.forward(token_ids, decoder.make_kv_cache(context_tokens=40), 40)[0].float()
              for decoder in (ours, twin)]
    error = (logits[0] - logits[1]).std() / logits[1].std()
    assert error < 0.03


def test_shapes_that_4_bits_do_not_take() -> None:
    with pytest.raises(UnsupportedModelError, match='8 x 64 cannot be kept in 4 bits: rows must'):
        Int4Linear(random_grouped(8, 64), None, CPU)
    with pytest.raises(UnsupportedModelError, match='columns must be a multiple of 32; set'):
        quantise(DenseMatrix(data=torch.ones(16, 48)), num_bits=4, group=32)
