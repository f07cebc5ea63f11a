# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Describing targets from headers alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from memspec_ros.config import TargetSettings
from memspec_ros.errors import ConfigError
from memspec_ros.models import native_library
from memspec_ros.models.gguf_file import GgufFile
from memspec_ros.models.target import load_target
from memspec_ros.models.target_description import TargetDescription, describe_target
from memspec_ros.testing.model_files import write_folder, write_gguf
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, tiny_config

CONFIG = tiny_config(vocab_size=272)


@pytest.fixture(scope='module')
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp('gguf') / 'tiny.gguf'
    write_gguf(path, RandomCheckpoint(CONFIG), kind='Q4_1', head_kind='Q8_0')
    return path


def describe(path: Path, **options) -> TargetDescription:
    settings = {'context_tokens': 100, 'device': 'cpu', **options}
    return describe_target(TargetSettings(model=str(path), **settings))


def test_describing_reads_headers_only(gguf: Path, tmp_path: Path) -> None:
    # All bytes of the tensors are missing from the disk: the file is a hole behind its header.
    start = min(info.offset for info in GgufFile(gguf).header.tensors.values())
    hollow = tmp_path / 'hollow.gguf'
    with hollow.open('wb') as file:
        file.write(gguf.read_bytes()[:start])
        file.truncate(gguf.stat().st_size)
    description = describe(hollow)
    assert description.weight_bytes == describe(gguf).weight_bytes
    assert (description.vocab_size, description.num_layers) == (272, 2)
    assert description.total_bytes > description.weight_bytes


@pytest.mark.skipif(torch.cuda.is_available(), reason='this machine has CUDA')
def test_cuda_is_refused_where_there_is_none(gguf: Path) -> None:
    with pytest.raises(ConfigError, match="is 'cuda', but PyTorch sees no CUDA"):
        describe(gguf, device='cuda')


def test_dtype_auto(gguf: Path, tmp_path: Path) -> None:
    write_folder(tmp_path, RandomCheckpoint(CONFIG), dtype=torch.float16)
    assert (describe(gguf).dtype, describe(tmp_path).dtype) == ('int4', 'bf16')
    assert describe(gguf, dtype='fp32').weight_bytes > 4 * describe(gguf).weight_bytes


def test_the_kv_cache_grows_with_the_context(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_library, 'is_available', lambda: False)
    small, large = describe(gguf, dtype='fp32'), describe(gguf, dtype='fp32', context_tokens=1124)
    per_token = CONFIG.kv_bytes_per_token(4)
    assert small.kv_bytes == 112 * per_token + 100 * 64 * 4
    assert large.kv_bytes == 1136 * per_token + 1024 * 64 * 4


def test_a_context_beyond_the_models(gguf: Path) -> None:
    with pytest.raises(ConfigError, match=r'context_tokens is 4096; .*tiny\.gguf was trained for '
                                          '2048'):
        describe(gguf, context_tokens=4096)


@pytest.mark.parametrize('sizes', [{'hidden_size': 48}, {'intermediate_size': 80},
                                   {'head_dim': 8}, {'num_heads': 2}])
def test_sizes_that_the_native_decoder_lacks(tmp_path: Path, sizes: dict[str, int]) -> None:
    config = tiny_config(vocab_size=272, **sizes)
    write_folder(tmp_path, RandomCheckpoint(config))
    settings = TargetSettings(model=str(tmp_path), context_tokens=100, dtype='fp32',
                              device='cpu', num_threads=1)
    loaded = load_target(settings)
    assert loaded.description.backend == 'torch'
    assert loaded.target.extend([1, 2, 3], 1).shape == (1, 272)
