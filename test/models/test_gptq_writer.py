# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""GPTQ folders that are written here, read again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gptq_checkpoints import into_words

from memspec_ros.errors import DataError, UnsupportedModelError
from memspec_ros.models import gptq_writer
from memspec_ros.models.checkpoint import open_checkpoint
from memspec_ros.models.decoder_config import DecoderConfig, RopeSettings
from memspec_ros.models.gptq_writer import (
    config_document,
    pack_words,
    round_groups,
    write_gptq_folder,
)
from memspec_ros.models.tensor_shapes import tensor_shapes
from memspec_ros.testing.model_files import tensors_of, write_folder
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, tiny_config

CONFIG = tiny_config(vocab_size=264, hidden_size=128, intermediate_size=192, head_dim=32,
                     family='qwen2', qkv_bias=True, tied_head=False)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_folder(tmp_path / 'float', RandomCheckpoint(CONFIG))
    return tmp_path / 'float'


@pytest.mark.parametrize('symmetric', [True, False])
@pytest.mark.parametrize('group_size', [64, 128, -1])
def test_what_is_written_is_near_the_source(source: Path, tmp_path: Path, symmetric: bool,
                                            group_size: int) -> None:
    num_bytes = write_gptq_folder(open_checkpoint(source), tmp_path / 'out',
                                  group_size=group_size, symmetric=symmetric)
    file = open_checkpoint(tmp_path / 'out')
    assert (file.config, file.is_4bit, file.num_bytes) == (CONFIG, True, num_bytes)
    for name, tensor in tensors_of(RandomCheckpoint(CONFIG)).items():
        found = file.matrix(name).values() if tensor.dim() == 2 else file.vector(name)
        coded = name.endswith('_proj.weight')
        error = float((found - tensor).square().mean().sqrt() / tensor.square().mean().sqrt())
        assert error < (0.16 if coded else 1e-3), name
    assert file.load_tokenizer().content_checksum() == \
        open_checkpoint(source).load_tokenizer().content_checksum()


def test_the_tokenizer_chats_and_ends_as_before(source: Path, tmp_path: Path) -> None:
    write_gptq_folder(open_checkpoint(source), tmp_path / 'out')
    before, after = (open_checkpoint(folder).load_tokenizer()
                     for folder in (source, tmp_path / 'out'))
    assert after.end_ids == before.end_ids
    assert after.has_chat_template


def test_many_tensors_go_to_several_shards(source: Path, tmp_path: Path,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gptq_writer, 'SHARD_BYTES', 80_000)
    said: list[str] = []
    write_gptq_folder(open_checkpoint(source), tmp_path / 'out', report=said.append)
    file = open_checkpoint(tmp_path / 'out')
    shards = sorted(path.name for path in (tmp_path / 'out').glob('*.safetensors'))
    assert len(shards) == len(said) > 2
    assert shards[0] == f'model-00001-of-{len(shards):05}.safetensors'
    for name, shape in tensor_shapes(CONFIG).items():
        assert (file.matrix(name).shape if len(shape) == 2 else
                tuple(file.vector(name).shape)) == shape


def test_words_are_as_the_definition_has_them() -> None:
    codes = torch.randint(0, 16, (5, 24), dtype=torch.uint8)
    assert torch.equal(pack_words(codes), into_words(codes.numpy().T, 4).t())


def test_rounding_takes_the_range_of_least_error() -> None:
    weights = torch.randn(64, 128, generator=torch.Generator().manual_seed(0))
    rounded = round_groups(weights, 128, symmetric=True)
    meant = (rounded.codes.float() - rounded.zeros.float()) * rounded.scales.float()
    plain = weights.abs().amax(1, keepdim=True) * 2 / 15
    whole_range = ((weights / plain).round() + 8).clamp(0, 15).sub(8) * plain
    assert (meant - weights).square().mean() < 0.97 * (whole_range - weights).square().mean()


def test_the_configuration_keeps_its_rotary_embedding() -> None:
    config = tiny_config(rope=RopeSettings(base=5e5, scaling='llama3', factor=8.0))
    assert DecoderConfig.from_hf(config_document(config), source='x') == config
    with pytest.raises(UnsupportedModelError, match='one by one'):
        config_document(tiny_config(rope=RopeSettings(frequency_divisors=(1.0,) * 8)))


def test_what_the_format_cannot_hold(tmp_path: Path) -> None:
    write_folder(tmp_path, RandomCheckpoint(tiny_config(vocab_size=264, intermediate_size=100)))
    with pytest.raises(UnsupportedModelError, match=r'\[100, 64\]; GPTQ in 4 bits takes'):
        write_gptq_folder(open_checkpoint(tmp_path), tmp_path / 'out')
    with pytest.raises(UnsupportedModelError, match='group_size is 5'):
        write_gptq_folder(open_checkpoint(tmp_path), tmp_path / 'out', group_size=5)


def test_a_weight_beyond_float16(source: Path, tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    file = open_checkpoint(source)
    monkeypatch.setattr(file, 'vector', lambda _: torch.full((128,), 1e6))
    with pytest.raises(DataError, match='beyond float16'):
        write_gptq_folder(file, tmp_path / 'out')
