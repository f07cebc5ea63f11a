# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Both decoders behind one signature, and targets that need several passes."""

from __future__ import annotations

import pytest
import torch

from memspec_ros.models import native_library
from memspec_ros.models.fast_target import FastTarget
from memspec_ros.models.native_decoder import NativeDecoder, NativeWeights, shared_pool
from memspec_ros.models.row_decoders import NativeRow, RowDecoder, TorchRow
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, random_decoder, tiny_config

CONFIG = tiny_config(vocab_size=272, head_dim=32)
TOKENS = [(7 * i + i * i) % 272 for i in range(90)]


@pytest.fixture(params=['torch', 'native'])
def row(request: pytest.FixtureRequest) -> RowDecoder:
    if request.param == 'torch':
        return TorchRow(random_decoder(CONFIG), context_tokens=96)
    if not native_library.is_available():
        pytest.skip('the native library was not built')
    decoder = NativeDecoder(CONFIG, NativeWeights.from_checkpoint(RandomCheckpoint(CONFIG)),
                            context_tokens=96, pool=shared_pool(1), max_width=32,
                            kv_dtype=torch.float32)
    return NativeRow(decoder, context_tokens=96)


def test_shapes(row: RowDecoder) -> None:
    logits, hidden = row.forward(TOKENS[:9], 4)
    assert (logits.shape, hidden.shape) == ((4, 272), (9, 64))
    assert hidden.dtype is row.hidden_dtype
    assert row.kv_bytes >= 96 * CONFIG.kv_bytes_per_token(4)


def test_rollback(row: RowDecoder) -> None:
    expected = row.forward(TOKENS[:9], 1)[0].clone()
    row.rollback(4)
    row.forward([1, 2, 3], 0)
    row.rollback(4)
    torch.testing.assert_close(row.forward(TOKENS[4:9], 1)[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('num_logits', [0, 1, 40, 90])
def test_wide_calls_take_several_passes(row: RowDecoder, num_logits: int) -> None:
    row.max_width = 32
    decoder = random_decoder(CONFIG)
    expected, hidden = decoder.forward(torch.tensor([TOKENS]),
                                       decoder.make_kv_cache(context_tokens=90), 90)
    target = FastTarget(row, context_tokens=96)
    logits = target.extend(TOKENS, num_logits)
    assert logits.shape == (num_logits, 272)
    torch.testing.assert_close(logits, expected[0, 90 - num_logits:], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(target.hidden_states(0, 90), hidden[0], rtol=1e-3, atol=1e-3)
