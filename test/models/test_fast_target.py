# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The target: its cursor, its refusals, and the deterministic mode, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch

from memspec_ros.boundaries import Target
from memspec_ros.errors import ModelError
from memspec_ros.models.fast_target import FastTarget
from memspec_ros.models.row_decoders import TorchRow
from memspec_ros.testing.random_checkpoint import random_decoder, tiny_config

TOKENS = [(7 * i + i * i) % 160 for i in range(100)]


@pytest.fixture(scope='module')
def decoder():
    return random_decoder()


def make_target(decoder, **options) -> FastTarget:
    return FastTarget(TorchRow(decoder, context_tokens=112), context_tokens=100, **options)


def logits_of(target: Target, widths: Sequence[int]) -> torch.Tensor:
    """Feed TOKENS in passes of the given widths; return all logits."""
    parts, start = [], 0
    for width in widths:
        parts.append(target.extend(TOKENS[start:start + width], width).clone())
        start += width
    return torch.cat(parts)


def random_widths(draw: random.Random, total: int) -> list[int]:
    widths = []
    while total:
        widths.append(min(draw.choice([1, 1, 2, 3, 4, 5, 8, 16, 40]), total))
        total -= widths[-1]
    return widths


def test_splits_agree(decoder) -> None:
    expected = logits_of(make_target(decoder), [100])
    found = logits_of(make_target(decoder), [1, 30, 5, 64])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_the_last_logits_are_returned(decoder) -> None:
    expected = logits_of(make_target(decoder), [40])
    for deterministic in (False, True):
        target = make_target(decoder, deterministic=deterministic)
        assert target.extend(TOKENS[:21], 0).shape == (0, 160)
        found = target.extend(TOKENS[21:40], 5)
        torch.testing.assert_close(found, expected[-5:], rtol=1e-4, atol=1e-4)
        assert target.length == 40


@pytest.mark.parametrize('deterministic', [False, True])
def test_rollback(decoder, deterministic: bool) -> None:
    target = make_target(decoder, deterministic=deterministic)
    expected = logits_of(make_target(decoder), [100])
    target.extend(TOKENS[:50], 0)
    target.extend([3, 1, 4, 1], 4)
    target.rollback(37)
    assert target.length == 37
    found = target.extend(TOKENS[37:], 63)
    torch.testing.assert_close(found, expected[37:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('dtype', ['fp32', 'bf16', 'int4'])
@pytest.mark.parametrize('family', ['llama', 'qwen2'])
def test_deterministic_mode_agrees_bit_for_bit(dtype: str, family: str) -> None:
    config = tiny_config(family=family, qkv_bias=family == 'qwen2', num_layers=3)
    decoder = random_decoder(config, dtype=dtype)
    expected = logits_of(make_target(decoder, deterministic=True), [100])
    draw = random.Random(11)
    for _ in range(12):
        widths = random_widths(draw, 100)
        found = logits_of(make_target(decoder, deterministic=True), widths)
        assert torch.equal(found, expected), widths


def test_deterministic_mode_is_not_moved_by_rejected_tokens(decoder) -> None:
    expected = logits_of(make_target(decoder, deterministic=True), [100])
    draw = random.Random(5)
    target = make_target(decoder, deterministic=True)
    found, start = [], 0
    while start < 100:
        kept = min(draw.randrange(1, 6), 100 - start)
        wrong = [draw.randrange(160) for _ in range(min(draw.randrange(8), 100 - start - kept))]
        logits = target.extend(TOKENS[start:start + kept] + wrong, kept + len(wrong))
        found.append(logits[:kept].clone())
        start += kept
        target.rollback(start)
    assert torch.equal(torch.cat(found), expected)


def test_hidden_states_are_those_of_the_logits(decoder) -> None:
    for deterministic in (False, True):
        target = make_target(decoder, deterministic=deterministic)
        logits = logits_of(target, [10, 3, 20])
        torch.testing.assert_close(decoder.logits(target.hidden_states(0, 33)), logits,
                                   rtol=1e-4, atol=1e-4)
        target.rollback(12)
        assert target.hidden_states(12, 12).shape == (0, 64)
        with pytest.raises(ModelError, match='positions 5 to 13 were asked for; 0 to 12 are kept'):
            target.hidden_states(5, 13)


@pytest.mark.parametrize(('token_ids', 'num_logits', 'message'), [
    ([1] * 60, 0, '50 tokens in the KV cache and 60 more pass the context of 100'),
    ([1, 160], 0, 'token 1 or 160 is not in the vocabulary of 160'),
    ([-1], 0, 'token -1 or -1 is not in the vocabulary'),
    ([1], 2, '2 logits of 1 tokens were asked for'), ([], 0, '0 logits of 0 tokens')])
def test_refusals(decoder, token_ids: list[int], num_logits: int, message: str) -> None:
    target = make_target(decoder)
    target.extend(TOKENS[:50], 0)
    with pytest.raises(ModelError, match=message):
        target.extend(token_ids, num_logits)
    assert target.length == 50


@pytest.mark.parametrize('length', [-1, 51])
def test_rollback_out_of_range(decoder, length: int) -> None:
    target = make_target(decoder)
    target.extend(TOKENS[:50], 0)
    with pytest.raises(ModelError, match=f'back to {length}: it holds 50 tokens'):
        target.rollback(length)


def test_memory_is_taken_once(decoder) -> None:
    target = make_target(decoder)
    pointer = target._row.kv_cache.keys.data_ptr()
    target.extend(TOKENS, 0)
    target.rollback(0)
    target.extend(TOKENS, 0)
    assert target._row.kv_cache.keys.data_ptr() == pointer
    assert target.kv_bytes == 2 * 2 * 2 * 112 * 16 * 4 + 100 * 64 * 4
