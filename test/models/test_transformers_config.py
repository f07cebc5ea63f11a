# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""config.json of any architecture, read without transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from memspec_ros.errors import ModelFormatError, ModelNotFoundError, UnsupportedModelError
from memspec_ros.models.transformers_config import read_hub_config

SIZES = {'model_type': 'gpt_neox', 'vocab_size': 272, 'hidden_size': 32, 'num_hidden_layers': 2,
         'num_attention_heads': 4}


def change(target: Path, **changes: object) -> Path:
    """Write config.json with changes; None takes a field away."""
    (target / 'config.json').write_text(json.dumps(
        {key: value for key, value in {**SIZES, **changes}.items() if value is not None}))
    return target


@pytest.mark.parametrize(('changes', 'message'), [
    ({'layer_types': ['full_attention', 'linear_attention']},
     'layers of kind linear_attention keep a state that cannot be rolled back'),
    ({'quantization_config': {'quant_method': 'awq'}}, 'weights are quantised')])
def test_models_that_cannot_serve(tmp_path: Path, changes: dict[str, object],
                                  message: str) -> None:
    with pytest.raises(UnsupportedModelError, match=message):
        read_hub_config(change(tmp_path, **changes))


def test_sizes_under_other_names(tmp_path: Path) -> None:
    change(tmp_path, hidden_size=None, num_hidden_layers=None, num_attention_heads=None,
           num_key_value_heads=None, n_embd=64, n_layer=3, n_head=2)
    config = read_hub_config(tmp_path)
    assert (config.hidden_size, config.num_layers, config.kv_size) == (64, 3, 64)


def test_damaged_configurations(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match='has none of hidden_size, n_embd, d_model'):
        read_hub_config(change(tmp_path, hidden_size=None))
    with pytest.raises(ModelFormatError, match='vocab_size is -1; it must be a positive'):
        read_hub_config(change(tmp_path, vocab_size=-1))
    (tmp_path / 'config.json').unlink()
    with pytest.raises(ModelNotFoundError, match=r'has no config\.json'):
        read_hub_config(tmp_path)


def test_sizes(tmp_path: Path) -> None:
    config = read_hub_config(change(tmp_path, num_key_value_heads=2, head_dim=24))
    assert (config.architecture, config.vocab_size, config.kv_size) == ('gpt_neox', 272, 48)
    text = {**SIZES, 'hidden_size': 64}
    assert read_hub_config(change(tmp_path, text_config=text)).hidden_size == 64


@pytest.mark.parametrize(('changes', 'window'), [
    ({}, 0), ({'sliding_window': 128}, 128),
    ({'sliding_window': 128, 'use_sliding_window': False}, 0),
    ({'sliding_window': 128, 'layer_types': ['full_attention']}, 0),
    ({'sliding_window': 128, 'layer_types': ['sliding_attention', 'full_attention']}, 128)])
def test_windows(tmp_path: Path, changes: dict[str, object], window: int) -> None:
    assert read_hub_config(change(tmp_path, **changes)).window == window


def test_weights_are_counted_in_the_headers(tmp_path: Path) -> None:
    save_file({'a': torch.ones(3, 5), 'b': torch.ones(7)}, tmp_path / 'model.safetensors')
    assert read_hub_config(change(tmp_path)).num_weights(tmp_path) == 22


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / 'x.gguf').touch()
    with pytest.raises(UnsupportedModelError, match=r'x\.gguf is no folder'):
        read_hub_config(tmp_path / 'x.gguf')
