# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The native decoder against the PyTorch one, and its promise about splits, bit for bit."""

from __future__ import annotations

import random

import pytest
import torch
from native_checkpoints import RandomCheckpoint, small_config

from memspec_ros.errors import ModelError, UnsupportedModelError
from memspec_ros.models.decoder import Decoder
from memspec_ros.models.decoder_config import RopeSettings
from memspec_ros.models.native_decoder import (
    NativeDecoder,
    NativePool,
    NativeWeights,
    is_available,
    shared_pool,
)
from memspec_ros.models.weights import load_weights

pytestmark = pytest.mark.skipif(not is_available(), reason='the native library is not built')

CONTEXT = 256
CONFIGS = {
    'llama_tied': {},
    'llama_untied': {'tied_head': False, 'num_kv_heads': 4, 'head_dim': 32},
    'llama_rope': {'rope': RopeSettings(base=500.0, scaling='linear', factor=2.5)},
    'llama_wide_heads': {'num_heads': 3, 'num_kv_heads': 1, 'head_dim': 96},
    'qwen2': {'family': 'qwen2', 'qkv_bias': True, 'num_heads': 6, 'num_kv_heads': 1},
}


def tokens(count: int, seed: int = 1) -> list[int]:
    return random.Random(seed).choices(range(203), k=count)


def make_native(checkpoint, *, num_threads: int = 2, kv_dtype=torch.float32,
                max_width: int = 200) -> NativeDecoder:
    return NativeDecoder(checkpoint.config, NativeWeights.from_checkpoint(checkpoint),
                         context_tokens=CONTEXT, pool=shared_pool(num_threads),
                         max_width=max_width, kv_dtype=kv_dtype)


def run_native(decoder: NativeDecoder, ids: list[int], widths: list[int]):
    """Return logits and hidden states of all positions, in passes of the given widths."""
    kv_cache = decoder.make_kv_cache(context_tokens=CONTEXT)
    logits, hidden = [], []
    for width in widths:
        start = kv_cache.length
        some_logits, some_hidden = decoder.forward(ids[start:start + width], kv_cache, width)
        logits.append(some_logits.clone())
        hidden.append(some_hidden.clone())
    return torch.cat(logits), torch.cat(hidden)


def run_reference(checkpoint, ids: list[int]):
    decoder = Decoder(checkpoint.config, load_weights(checkpoint, dtype='fp32'),
                      context_tokens=CONTEXT)
    logits, hidden = decoder.forward(torch.tensor([ids]),
                                     decoder.make_kv_cache(context_tokens=CONTEXT), len(ids))
    return logits[0], hidden[0]


@pytest.mark.parametrize('case', CONFIGS)
def test_float_weights_agree_with_pytorch(case):
    checkpoint = RandomCheckpoint(small_config(**CONFIGS[case]), 'fp32')
    ids = tokens(150)
    expected_logits, expected_hidden = run_reference(checkpoint, ids)
    for widths in ([1, 15, 134], [150], [7] * 21 + [3]):
        logits, hidden = run_native(make_native(checkpoint), ids, widths)
        torch.testing.assert_close(hidden, expected_hidden, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(logits, expected_logits, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize('form', ['fp16', 'bf16', 'int8', 'int4'])
def test_other_weights_are_near_pytorch(form):
    checkpoint = RandomCheckpoint(small_config(), form)
    ids = tokens(100)
    expected, _ = run_reference(checkpoint, ids)
    logits, _ = run_native(make_native(checkpoint, kv_dtype=torch.float16), ids, [100])
    limit = 0.06 if form.startswith('int') else 0.005
    assert (logits - expected).abs().mean() < limit * expected.std()


@pytest.mark.parametrize('kv_dtype', [torch.float16, torch.float32])
@pytest.mark.parametrize('form', ['int4', 'int8', 'bf16'])
def test_any_split_gives_the_same_bits(form, kv_dtype):
    checkpoint = RandomCheckpoint(small_config(qkv_bias=True, family='qwen2'), form)
    ids = tokens(200)
    decoders = [make_native(checkpoint, num_threads=count, kv_dtype=kv_dtype)
                for count in (1, 2, 9)]
    expected = run_native(decoders[0], ids, [200])
    draw = random.Random(7)
    for trial in range(12):
        widths: list[int] = []
        while sum(widths) < 200:
            most = draw.choice([1, 4, 16, 70])
            widths.append(min(draw.randint(1, most), 200 - sum(widths)))
        seen = run_native(decoders[trial % 3], ids, widths)
        assert torch.equal(seen[0], expected[0]), widths
        assert torch.equal(seen[1], expected[1]), widths


def test_rollback_forgets_what_was_behind_it():
    decoder = make_native(RandomCheckpoint(small_config(), 'int4'))
    expected = run_native(decoder, tokens(90), [90])[0]
    kv_cache = decoder.make_kv_cache(context_tokens=CONTEXT)
    decoder.forward(tokens(90)[:50] + tokens(60, seed=2), kv_cache, 0)
    kv_cache.rollback(50)
    logits, _ = decoder.forward(tokens(90)[50:], kv_cache, 40)
    assert torch.equal(logits, expected[50:])
    assert kv_cache.length == 90


def test_only_the_last_rows_get_logits():
    decoder = make_native(RandomCheckpoint(small_config(), 'int4'))
    ids = tokens(40)
    expected = run_native(decoder, ids, [40])[0]
    for num_logits in (0, 1, 3, 40):
        logits, hidden = decoder.forward(ids, decoder.make_kv_cache(context_tokens=64),
                                         num_logits)
        assert logits.shape == (num_logits, 203)
        assert hidden.shape == (40, 64)
        assert torch.equal(logits, expected[40 - num_logits:])


@pytest.mark.parametrize('width', [5, 30])
def test_best_tokens_are_those_of_the_logits(width):
    decoder = make_native(RandomCheckpoint(small_config(), 'int4'))
    logits, _ = decoder.forward(tokens(width), decoder.make_kv_cache(context_tokens=64), width)
    expected = logits.argmax(-1).tolist()
    best, _ = decoder.best_tokens(tokens(width), decoder.make_kv_cache(context_tokens=64), width)
    assert best == expected


def test_the_lowest_of_equal_logits_is_best():
    checkpoint = RandomCheckpoint(small_config(tied_head=False), 'fp32')
    checkpoint.matrix('lm_head.weight').data[:] = 0.0
    decoder = make_native(checkpoint)
    best, _ = decoder.best_tokens(tokens(3), decoder.make_kv_cache(context_tokens=64), 3)
    assert best == [0, 0, 0]


def test_embeddings_serve_as_input():
    checkpoint = RandomCheckpoint(small_config(), 'int8')
    decoder = make_native(checkpoint)
    ids = tokens(20)
    expected = run_native(decoder, ids, [20])[0]
    rows = checkpoint.matrix('model.embed_tokens.weight').values()[ids]
    logits, _ = decoder.forward_embeddings(rows, decoder.make_kv_cache(context_tokens=64), 20)
    assert torch.equal(logits, expected)


def test_a_pass_that_does_not_fit_is_refused():
    decoder = make_native(RandomCheckpoint(small_config(), 'int4'), max_width=20)
    kv_cache = decoder.make_kv_cache(context_tokens=30)
    decoder.forward(tokens(20), kv_cache, 0)
    with pytest.raises(ModelError, match='20 tokens in the KV cache and 11 more pass its 30'):
        decoder.forward(tokens(11), kv_cache, 1)
    with pytest.raises(ModelError, match='takes 1 to 20 tokens, not 21'):
        decoder.forward(tokens(21), kv_cache, 1)
    with pytest.raises(ModelError, match='takes 1 to 20 tokens, not 0'):
        decoder.forward([], kv_cache, 0)
    with pytest.raises(ModelError, match='257 tokens is longer than the decoder'):
        decoder.make_kv_cache(context_tokens=257)
    assert kv_cache.length == 20


@pytest.mark.parametrize('token', [-1, 203])
def test_an_unknown_token_is_refused(token):
    decoder = make_native(RandomCheckpoint(small_config(), 'int4'))
    kv_cache = decoder.make_kv_cache(context_tokens=30)
    with pytest.raises(ModelError, match='argument is out of range'):
        decoder.forward([5, token], kv_cache, 1)
    assert kv_cache.length == 0


def test_sizes_without_kernels_are_refused():
    checkpoint = RandomCheckpoint(small_config(hidden_size=48), 'fp32')
    with pytest.raises(UnsupportedModelError, match='hidden size 48'):
        make_native(checkpoint)


def test_pools_come_and_go():
    checkpoint = RandomCheckpoint(small_config(), 'int4')
    weights = NativeWeights.from_checkpoint(checkpoint)
    expected = run_native(make_native(checkpoint), tokens(20), [20])[0]
    for num_threads in (1, 2, 4):
        decoder = NativeDecoder(checkpoint.config, weights, context_tokens=CONTEXT,
                                pool=NativePool(num_threads), kv_dtype=torch.float32)
        assert torch.equal(run_native(decoder, tokens(20), [20])[0], expected)
        del decoder
