# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Decoder configurations: what config.json says, in old and new spelling, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from memspec_ros.errors import ModelFormatError, UnsupportedModelError
from memspec_ros.models.decoder_config import DecoderConfig, RopeSettings
from memspec_ros.models.tensor_shapes import tensor_shapes
from memspec_ros.testing.model_files import hub_config
from memspec_ros.testing.random_checkpoint import tiny_config

LLAMA3 = {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0,
          'original_max_position_embeddings': 8192}


def read(**changes: Any) -> DecoderConfig:
    document = {**hub_config(tiny_config()), **changes}
    return DecoderConfig.from_hf({key: value for key, value in document.items()
                                  if value is not None}, source='config.json')


@pytest.mark.parametrize('family', ['llama', 'qwen2'])
def test_round_trip(family: str) -> None:
    config = tiny_config(family=family, qkv_bias=family == 'qwen2', tied_head=False)
    assert DecoderConfig.from_hf(hub_config(config), source='x') == config


def test_defaults_of_old_files() -> None:
    config = read(num_key_value_heads=None, head_dim=None, rms_norm_eps=None, rope_theta=None,
                  tie_word_embeddings=None)
    assert (config.num_kv_heads, config.head_dim) == (4, 16)
    assert (config.norm_epsilon, config.rope.base, config.tied_head) == (1e-6, 1e4, False)


def test_rope_in_both_spellings() -> None:
    old = read(rope_theta=5e5, rope_scaling=LLAMA3)
    new = read(rope_theta=None, rope_parameters={**LLAMA3, 'rope_theta': 5e5})
    assert old.rope == new.rope == RopeSettings(
        base=5e5, scaling='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_context=8192)
    assert read(rope_scaling={'type': 'linear', 'factor': 2.0}).rope.scaling == 'linear'


def test_sizes_that_follow() -> None:
    config = tiny_config(tied_head=False)
    shapes = tensor_shapes(config)
    assert config.num_weights == sum(shape[0] * shape[1] for shape in shapes.values()
                                     if len(shape) == 2)
    assert config.kv_bytes_per_token(2) == 2 * 2 * 32 * 2


def test_given_divisors_take_the_place_of_the_formula() -> None:
    plain = RopeSettings().inverse_frequencies(8)
    halved = RopeSettings(frequency_divisors=(2.0,) * 4).inverse_frequencies(8)
    assert [float(value) for value in halved] == pytest.approx([float(v) / 2 for v in plain])


@pytest.mark.parametrize(('changes', 'message'), [
    ({'model_type': 'mistral'}, "model_type is 'mistral'; the fast decoder has llama and qwen2"),
    ({'hidden_act': 'gelu'}, "hidden_act is 'gelu'"),
    ({'attention_bias': True}, 'attention_bias is set'), ({'mlp_bias': True}, 'mlp_bias is set'),
    ({'use_sliding_window': True}, 'use_sliding_window is set'),
    ({'rope_scaling': {'rope_type': 'yarn', 'factor': 2.0}}, "rope scaling is 'yarn'")])
def test_options_that_are_not_served(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedModelError, match=f'config.json: .*{message}'):
        read(**changes)


@pytest.mark.parametrize(('changes', 'message'), [
    ({'hidden_size': None}, 'hidden_size is None; it must be an integer'),
    ({'vocab_size': '32'}, "vocab_size is '32'; it must be an integer"),
    ({'vocab_size': 0}, r'vocab_size is 0; it must be in \[1, 16777216\]'),
    ({'num_hidden_layers': 10**6}, r'num_layers is 1000000; it must be in \[1, 1024\]'),
    ({'num_attention_heads': 3}, '3 heads cannot share 2 KV heads evenly'),
    ({'head_dim': 15}, 'head_dim is 15; rotary embedding needs it even'),
    ({'rms_norm_eps': 'x'}, "rms_norm_eps is 'x'; it must be a number"),
    ({'rms_norm_eps': -1.0}, r'norm_epsilon is -1.0; it must be in \(0, 1\)'),
    ({'rope_theta': -5}, 'rope base is -5.0; it must be a positive number'),
    ({'rope_scaling': 'yes'}, "rope_scaling is 'yes'; it must be an object")])
def test_damaged_files(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelFormatError, match=f'config.json: .*{message}'):
        read(**changes)


def test_divisors_must_fit_the_heads() -> None:
    with pytest.raises(ModelFormatError, match='3 rope frequency divisors for a head_dim of 16'):
        tiny_config(rope=RopeSettings(frequency_divisors=(1.0,) * 3))
