# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Hugging Face folders as checkpoints, whole, sharded and damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from memspec_ros.errors import (
    ModelError,
    ModelFormatError,
    ModelNotFoundError,
    UnsupportedModelError,
)
from memspec_ros.models import matrices, native_library, safetensors_folder
from memspec_ros.models.checkpoint import load_decoder, open_checkpoint
from memspec_ros.models.checkpoint_forms import CheckpointInForm
from memspec_ros.models.matrices import StoredMatrix
from memspec_ros.models.native_matrix import GrowingStorage, pack
from memspec_ros.models.safetensors_folder import SafetensorsFolder
from memspec_ros.models.weights import load_weights
from memspec_ros.testing.model_files import tensors_of, write_folder
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, tiny_config

CONFIG = tiny_config(vocab_size=264, tied_head=False)
NAME = 'model.layers.1.mlp.down_proj.weight'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path, RandomCheckpoint(CONFIG))
    return tmp_path


def change(file: Path, **changes: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize('dtype', [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize('num_shards', [1, 3])
def test_tensors_come_in_stored_precision(tmp_path: Path, dtype: torch.dtype,
                                          num_shards: int) -> None:
    checkpoint = RandomCheckpoint(CONFIG)
    write_folder(tmp_path, checkpoint, dtype=dtype, num_shards=num_shards)
    read = SafetensorsFolder(tmp_path)
    assert read.config == CONFIG
    for name, tensor in tensors_of(checkpoint).items():
        found = read.matrix(name).data if tensor.dim() == 2 else read.vector(name)
        assert torch.equal(found, tensor.to(dtype) if tensor.dim() == 2 else
                           tensor.to(dtype).float())
    assert read.num_bytes == sum(t.numel() for t in tensors_of(checkpoint).values()) * \
        dtype.itemsize


@pytest.mark.parametrize('dtype', [torch.float32, torch.float16, torch.bfloat16])
def test_large_tables_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                         dtype: torch.dtype) -> None:
    monkeypatch.setattr(safetensors_folder, 'LARGE_TABLE_BYTES', 1)
    monkeypatch.setattr(matrices, 'CHUNK_BYTES', 4096)
    checkpoint = RandomCheckpoint(CONFIG)
    write_folder(tmp_path, checkpoint, dtype=dtype)
    file = SafetensorsFolder(tmp_path)
    expected = tensors_of(checkpoint)['lm_head.weight'].to(dtype)
    table = file.matrix('lm_head.weight')
    assert isinstance(table, StoredMatrix)
    assert len(list(table.chunks())) > 5
    assert torch.equal(table.values(), expected.float())
    assert torch.equal(table.take_rows(torch.tensor([7, 3])).data, expected[[7, 3]])
    assert torch.equal(table.to(torch.bfloat16).values(), expected.bfloat16().float())
    if native_library.is_available():
        packed = pack(table, GrowingStorage())
        assert torch.equal(packed.values(), expected.float())
    for form in ('fp32', 'bf16'):
        weights = load_weights(file, dtype=form)
        assert torch.equal(weights.head.weight, expected.to(weights.head.weight.dtype))
        assert isinstance(CheckpointInForm(file, form).matrix('lm_head.weight'), StoredMatrix)
    assert CheckpointInForm(file, 'int4').matrix('lm_head.weight').num_bits == 8


def test_a_large_table_of_a_file_that_shrank(folder: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors_folder, 'LARGE_TABLE_BYTES', 1)
    table = SafetensorsFolder(folder).matrix('model.embed_tokens.weight')
    (folder / 'model.safetensors').write_bytes(b'')
    with pytest.raises(ModelFormatError, match='the file has changed'):
        table.values()


def test_the_tokenizer_comes_along(folder: Path) -> None:
    tokenizer = open_checkpoint(folder).load_tokenizer()
    assert tokenizer.decode(tokenizer.encode('abc')) == 'abc'


def test_fingerprint_tells_weights_apart(folder: Path) -> None:
    first = SafetensorsFolder(folder).fingerprint()
    assert SafetensorsFolder(folder).fingerprint() == first
    write_folder(folder, RandomCheckpoint(CONFIG, seed=1))
    assert SafetensorsFolder(folder).fingerprint() != first


def test_missing_folder_and_files(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match='none does not exist'):
        open_checkpoint(tmp_path / 'none')
    (folder / 'model.safetensors').unlink()
    with pytest.raises(ModelNotFoundError, match=r'model\.safetensors'):
        open_checkpoint(folder)
    (folder / 'config.json').unlink()
    with pytest.raises(ModelNotFoundError, match=r'has no config\.json'):
        open_checkpoint(folder)


def test_a_missing_shard(tmp_path: Path) -> None:
    write_folder(tmp_path, RandomCheckpoint(CONFIG), num_shards=2)
    (tmp_path / 'model-00002-of-00002.safetensors').unlink()
    with pytest.raises(ModelNotFoundError, match=r'model-00002-of-00002\.safetensors'):
        open_checkpoint(tmp_path)


def test_shards_stay_in_the_folder(tmp_path: Path) -> None:
    write_folder(tmp_path, RandomCheckpoint(CONFIG), num_shards=2)
    change(tmp_path / 'model.safetensors.index.json', weight_map={'a': '../../etc/passwd'})
    with pytest.raises(ModelNotFoundError, match=f'{tmp_path}/passwd'):
        open_checkpoint(tmp_path)


def test_a_missing_tensor(folder: Path) -> None:
    change(folder / 'config.json', num_hidden_layers=3)
    with pytest.raises(ModelFormatError, match=r'layers\.2.* is missing from 1 safetensors'):
        load_decoder(folder)


def test_a_tensor_of_another_shape(folder: Path) -> None:
    change(folder / 'config.json', intermediate_size=128)
    with pytest.raises(ModelFormatError, match=r"down_proj.weight' is torch.float32 of shape "
                                               r'\[64, 96\]; expected .* \[64, 128\]'):
        SafetensorsFolder(folder).matrix(NAME)


def test_quantised_weights_are_refused(folder: Path) -> None:
    change(folder / 'config.json', quantization_config={'quant_method': 'awq', 'bits': 4})
    with pytest.raises(UnsupportedModelError, match='weights are quantised'):
        open_checkpoint(folder)


def test_truncation_is_told(folder: Path) -> None:
    file = folder / 'model.safetensors'
    data = file.read_bytes()
    for cut in (0, 7, 100, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:cut])
        with pytest.raises(ModelFormatError, match=r'model\.safetensors'):
            open_checkpoint(folder)


@pytest.mark.parametrize('text', ['', '[]', '{"model_type": 3}', '{', '{"model_type": "llama"}'])
def test_damaged_configuration(folder: Path, text: str) -> None:
    (folder / 'config.json').write_text(text)
    with pytest.raises(ModelError, match=r'config\.json'):
        open_checkpoint(folder)
