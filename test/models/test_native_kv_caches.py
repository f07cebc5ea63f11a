# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Passes over tokens of several sequences, against passes over one, bit for bit."""

from __future__ import annotations

import random

import pytest
import torch
from native_checkpoints import RandomCheckpoint, small_config

from memspec_ros.errors import ModelError
from memspec_ros.models.native_decoder import (
    NativeDecoder,
    NativeKVCaches,
    NativeWeights,
    is_available,
    shared_pool,
)

pytestmark = pytest.mark.skipif(not is_available(), reason='the native library is not built')

LENGTHS = [1, 17, 64, 65, 130, 90, 3]
STEPS = 70


def tokens(count: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(203), k=count)


def make_decoder(form: str = 'int4', kv_dtype=torch.float16) -> NativeDecoder:
    checkpoint = RandomCheckpoint(small_config(qkv_bias=True, family='qwen2'), form)
    return NativeDecoder(checkpoint.config, NativeWeights.from_checkpoint(checkpoint),
                         context_tokens=256, pool=shared_pool(2), max_width=200,
                         kv_dtype=kv_dtype)


def make_caches(decoder: NativeDecoder) -> NativeKVCaches:
    """Caches that hold sequences of different lengths; the pass of each is checked nowhere."""
    caches = NativeKVCaches(decoder.config, count=len(LENGTHS), context_tokens=256,
                            dtype=decoder.kv_dtype)
    for slot, length in enumerate(LENGTHS):
        decoder.forward(tokens(length, slot), caches[slot], 0)
    return caches


@pytest.mark.parametrize('form', ['int4', 'bf16'])
def test_rows_are_those_of_their_sequences_alone(form):
    decoder = make_decoder(form, torch.float16 if form == 'int4' else torch.float32)
    caches = make_caches(decoder)
    draw = random.Random(3)
    more: list[list[int]] = [[] for _ in LENGTHS]
    made: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in LENGTHS]
    for _ in range(STEPS):
        slots = draw.sample(range(len(LENGTHS)), draw.randint(1, len(LENGTHS)))
        step = tokens(len(slots), draw.randrange(1000))
        logits, hidden = decoder.forward_rows(step, caches, slots)
        for row, slot in enumerate(slots):
            more[slot].append(step[row])
            made[slot].append((logits[row].clone(), hidden[row].clone()))
    for slot, length in enumerate(LENGTHS):
        alone = decoder.make_kv_cache(context_tokens=256)
        decoder.forward(tokens(length, slot), alone, 0)
        logits, hidden = decoder.forward(more[slot], alone, len(more[slot]))
        assert torch.equal(logits, torch.stack([part[0] for part in made[slot]]))
        assert torch.equal(hidden, torch.stack([part[1] for part in made[slot]]))
        assert caches[slot].length == length + len(more[slot])


def test_a_pass_over_one_sequence_follows_as_before():
    decoder = make_decoder()
    caches = make_caches(decoder)
    decoder.forward_rows([5, 6], caches, [1, 2])
    alone = decoder.make_kv_cache(context_tokens=256)
    expected = decoder.forward([*tokens(17, 1), 5, 7, 8], alone, 2)[0].clone()
    assert torch.equal(decoder.forward([7, 8], caches[1], 2)[0], expected)


def test_wrong_rows_are_refused():
    decoder = make_decoder()
    caches = make_caches(decoder)
    with pytest.raises(ModelError, match='2 tokens need as many different KV caches'):
        decoder.forward_rows([5, 6], caches, [1, 1])
    with pytest.raises(ModelError, match='2 tokens need as many different KV caches'):
        decoder.forward_rows([5, 6], caches, [1])
    caches[1].length = 256
    with pytest.raises(ModelError, match='a pass of 1 tokens'):
        decoder.forward_rows([5], caches, [1])
    assert decoder.forward([5], caches[0], 1)[0].shape == (1, 203)
