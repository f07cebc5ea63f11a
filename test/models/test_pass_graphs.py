# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Captured passes: the same numbers as plain ones, and what the device is told in which order.

On a machine without CUDA a recording device stands for it; the last tests need a real one.
"""

import pytest
import torch

from memspec_ros.errors import ModelError
from memspec_ros.models.decoder import Decoder
from memspec_ros.models.fast_target import FastTarget
from memspec_ros.models.kv_cache import KVCache
from memspec_ros.models.pass_graphs import (
    CudaGraphMaker,
    GraphedDraftDecoder,
    GraphedRow,
    capture_passes,
)
from memspec_ros.models.row_decoders import TorchRow
from memspec_ros.models.weights import load_weights
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, random_decoder, tiny_config
from memspec_ros.testing.recording_device import RecordingDevice

CONTEXT_TOKENS = 48
PROMPT = [(11 * index) % 160 for index in range(21)]

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a CUDA device')


def run_steps(target):
    """Prefill, three verifications of different widths with rollbacks, a plain step."""
    seen = [target.extend(PROMPT, 1).clone()]
    for width, kept in ((4, 2), (3, 3), (5, 1)):
        length = target.length
        seen.append(target.extend(PROMPT[:width], width).clone())
        target.rollback(length + kept)
    seen.append(target.extend([7], 1).clone())
    return torch.cat(seen), target.hidden_states(0, target.length).clone()


@pytest.mark.parametrize('family', ['llama', 'qwen2'])
def test_a_target_on_graphs_has_the_logits_of_one_without(family):
    config = tiny_config(family=family, qkv_bias=family == 'qwen2')
    decoder = random_decoder(config)
    device = RecordingDevice()
    plain, graphed = (FastTarget(row, context_tokens=CONTEXT_TOKENS) for row in (
        TorchRow(decoder, context_tokens=CONTEXT_TOKENS),
        GraphedRow(decoder, context_tokens=CONTEXT_TOKENS, maker=device)))
    for found, expected in zip(run_steps(graphed), run_steps(plain), strict=True):
        assert torch.allclose(found, expected, atol=1e-4)
    replayed = [entry[1] for entry in device.log if entry[0] == 'replay']
    assert replayed == [5, 6, 4, 8]  # widths 4, 3, 5 and 1, captured from 8 down


def test_inputs_are_copied_behind_the_fence_of_the_copy_before():
    device, decoder = RecordingDevice(), random_decoder()
    kv_cache = decoder.make_kv_cache(context_tokens=CONTEXT_TOKENS)
    step = capture_passes(decoder, kv_cache, [1], device)[1]
    step([3])
    step([4])
    step([5])
    assert device.log == [('capture', 1), ('fence', 1), ('replay', 1), ('wait', 1), ('fence', 2),
                          ('replay', 1), ('wait', 2), ('fence', 3), ('replay', 1)]
    assert kv_cache.length == 3


def test_memory_of_inputs_and_kv_cache_never_moves():
    decoder = random_decoder()
    kv_cache = decoder.make_kv_cache(context_tokens=CONTEXT_TOKENS)
    step = capture_passes(decoder, kv_cache, [2], RecordingDevice())[2]
    before = (step._inputs.data_ptr(), step._host.data_ptr(), kv_cache.keys.data_ptr())
    for _ in range(3):
        step([1, 2])
    assert (step._inputs.data_ptr(), step._host.data_ptr(), kv_cache.keys.data_ptr()) == before


def test_what_lies_behind_the_cursor_is_not_seen():
    decoder = random_decoder()
    kv_cache = decoder.make_kv_cache(context_tokens=CONTEXT_TOKENS)
    step = capture_passes(decoder, kv_cache, [3], RecordingDevice())[3]
    expected = step([5, 6, 7])[0].clone()
    step([8, 9, 10])
    kv_cache.rollback(0)
    assert torch.equal(step([5, 6, 7])[0], expected)


def test_a_full_kv_cache_is_told():
    decoder = random_decoder()
    kv_cache = decoder.make_kv_cache(context_tokens=3)
    step = capture_passes(decoder, kv_cache, [2], RecordingDevice())[2]
    step([1, 2])
    with pytest.raises(ModelError, match='2 tokens in the KV cache and 2 more'):
        step([3, 4])


def test_where_capture_fails_passes_run_plainly(caplog):
    device = RecordingDevice(capture_error=RuntimeError('operation not permitted\nmore'),
                             num_captures=2)
    decoder = random_decoder()
    plain = FastTarget(TorchRow(decoder, context_tokens=CONTEXT_TOKENS),
                       context_tokens=CONTEXT_TOKENS)
    graphed = FastTarget(GraphedRow(decoder, context_tokens=CONTEXT_TOKENS, maker=device,
                                    widths=(1, 2, 4, 5)), context_tokens=CONTEXT_TOKENS)
    assert 'passes of 2 tokens and fewer run without a graph: operation not permitted' \
        in caplog.text
    for found, expected in zip(run_steps(graphed), run_steps(plain), strict=True):
        assert torch.allclose(found, expected, atol=1e-4)
    assert [entry for entry in device.log if entry[0] == 'replay'] == [('replay', 2),
                                                                       ('replay', 1)]


def test_a_draft_steps_on_graphs_of_the_kv_cache_it_uses():
    decoder, device = random_decoder(), RecordingDevice()
    caches = [decoder.make_kv_cache(context_tokens=CONTEXT_TOKENS) for _ in range(2)]
    graphed = GraphedDraftDecoder(decoder, caches, num_rows=90, maker=device)
    other = decoder.make_kv_cache(context_tokens=CONTEXT_TOKENS)
    for kv_cache in caches:
        other.rollback(0)
        assert graphed.best_rows(PROMPT, kv_cache, 0, 90) == []
        assert decoder.best_rows(PROMPT, other, 0, 90) == []
        for tokens, wanted in (([3], 1), ([4, 5], 2), ([6, 7], 1), ([8, 9, 10], 1)):
            assert graphed.best_rows(tokens, kv_cache, wanted, 90) == \
                decoder.best_rows(tokens, other, wanted, 90)
    assert [entry[1] for entry in device.log if entry[0] == 'replay'] == [2, 1, 1, 4, 3, 3]


@needs_cuda
@pytest.mark.parametrize('dtype', ['bf16', 'int4'])
def test_on_cuda_graphs_have_the_logits_of_plain_passes(dtype):
    config = tiny_config(hidden_size=128, intermediate_size=256, head_dim=32)
    weights = load_weights(RandomCheckpoint(config), dtype=dtype, device=torch.device('cuda'))
    decoder = Decoder(config, weights)
    plain, graphed = (FastTarget(row, context_tokens=CONTEXT_TOKENS) for row in (
        TorchRow(decoder, context_tokens=CONTEXT_TOKENS),
        GraphedRow(decoder, context_tokens=CONTEXT_TOKENS, maker=CudaGraphMaker())))
    for found, expected in zip(run_steps(graphed), run_steps(plain), strict=True):
        assert torch.allclose(found.float(), expected.float(), atol=0.1)


@needs_cuda
def test_on_cuda_a_graph_sees_weights_that_were_swapped():
    config = tiny_config()
    weights = load_weights(RandomCheckpoint(config), dtype='bf16', device=torch.device('cuda'))
    decoder = Decoder(config, weights)
    kv_cache = KVCache(config, context_tokens=CONTEXT_TOKENS, dtype=torch.bfloat16, device='cuda')
    step = capture_passes(decoder, kv_cache, [1], CudaGraphMaker())[1]
    first = step([3])[0].clone()
    weights.embedding.neg_()
    kv_cache.rollback(0)
    assert not torch.equal(step([3])[0], first)
