# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Configurations in GGUF metadata, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memspec_ros.errors import ModelFormatError, UnsupportedModelError
from memspec_ros.models.gguf_config import read_config
from memspec_ros.models.gguf_file import GgufFile
from memspec_ros.models.gguf_header import read_header
from memspec_ros.testing.model_files import write_gguf
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, tiny_config

CONFIG = tiny_config(vocab_size=264)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'm.gguf'


def test_rope_scaling(path: Path) -> None:
    write_gguf(path, RandomCheckpoint(CONFIG), changes={
        'llama.rope.scaling.type': 'linear', 'llama.rope.scaling.factor': 4.0})
    rope = GgufFile(path).config.rope
    assert (rope.scaling, rope.factor) == ('linear', 4.0)


@pytest.mark.parametrize(('changes', 'error', 'message'), [
    ({'general.architecture': 'gemma3'}, UnsupportedModelError,
     "architecture is 'gemma3'; the fast decoder has llama and qwen2"),
    ({'split.count': 3}, UnsupportedModelError, 'one of 3 files; join them first'),
    ({'llama.attention.sliding_window': 4096}, UnsupportedModelError, 'sliding_window is set'),
    ({'llama.rope.dimension_count': 8}, UnsupportedModelError, 'turns whole heads'),
    ({'llama.rope.scaling.type': 'yarn'}, UnsupportedModelError, "rope scaling is 'yarn'"),
    ({'llama.block_count': 0}, ModelFormatError, r'num_layers is 0; it must be in \[1, 1024\]'),
    ({'llama.block_count': 1 << 30}, ModelFormatError, 'num_layers is 1073741824'),
    ({'llama.embedding_length': 'x'}, ModelFormatError, "is 'x', expected an integer"),
    ({'llama.attention.head_count': 3}, ModelFormatError, '3 heads cannot share 2 KV heads'),
    ({'llama.attention.layer_norm_rms_epsilon': 'no'}, ModelFormatError, 'expected a number'),
    ({'llama.attention.layer_norm_rms_epsilon': float('nan')}, ModelFormatError,
     'norm_epsilon is nan')])
def test_configurations_that_do_not_serve(path: Path, changes: dict[str, Any],
                                          error: type[Exception], message: str) -> None:
    write_gguf(path, RandomCheckpoint(CONFIG), changes=changes)
    with pytest.raises(error, match=f'm.gguf: .*{message}'):
        GgufFile(path)


@pytest.mark.parametrize('family', ['llama', 'qwen2'])
def test_round_trip(path: Path, family: str) -> None:
    config = tiny_config(vocab_size=264, family=family, qkv_bias=family == 'qwen2',
                         tied_head=False, num_kv_heads=1)
    write_gguf(path, RandomCheckpoint(config))
    assert read_config(read_header(path)) == config


def test_frequency_divisors_are_a_tensor(path: Path) -> None:
    divisors = np.linspace(1.0, 8.0, 8, dtype=np.float32)
    write_gguf(path, RandomCheckpoint(CONFIG), extra={'rope_freqs.weight': divisors})
    assert read_config(read_header(path)).rope.frequency_divisors == tuple(divisors.tolist())


@pytest.mark.parametrize(('divisors', 'message'), [
    (np.ones(8, np.float16), "'rope_freqs.weight' is F16, expected F32"),
    (np.ones(5, np.float32), '5 rope frequency divisors for a head_dim of 16'),
    (np.zeros(8, np.float32), 'divisors must be positive numbers')])
def test_damaged_divisors(path: Path, divisors: np.ndarray, message: str) -> None:
    write_gguf(path, RandomCheckpoint(CONFIG), extra={'rope_freqs.weight': divisors})
    with pytest.raises(ModelFormatError, match=message):
        read_config(read_header(path))
