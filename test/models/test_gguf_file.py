# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""GGUF checkpoints: values of every block format, row order, configuration, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

from memspec_ros.errors import ModelFormatError
from memspec_ros.models.decoder import Decoder
from memspec_ros.models.gguf_file import GgufFile
from memspec_ros.models.weights import load_weights
from memspec_ros.testing.model_files import tensors_of, write_gguf
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, random_decoder, tiny_config

DOWN = 'model.layers.1.mlp.down_proj.weight'
CONFIG = tiny_config(vocab_size=264)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'm.gguf'


@pytest.mark.parametrize('kind', ['Q4_K', 'Q6_K'])
def test_large_blocks_are_dequantised(path: Path, kind: str) -> None:
    config = tiny_config(hidden_size=256, intermediate_size=256, num_layers=1, vocab_size=264)
    write_gguf(path, RandomCheckpoint(config))
    file = GgufFile(path)
    info = file.header.tensors['blk.0.ffn_down.weight']
    raw = bytearray(path.read_bytes())
    # The gguf package cannot write these: the F32 bytes are read as blocks of the wanted type.
    name = b'blk.0.ffn_down.weight'
    at = raw.index(name) + len(name) + 4 + 16
    raw[at:at + 4] = int(GGMLQuantizationType[kind]).to_bytes(4, 'little')
    raw[info.offset:info.offset + info.num_bytes] = bytes(range(64)) * (info.num_bytes // 64)
    path.write_bytes(raw)
    values = GgufFile(path).matrix('model.layers.0.mlp.down_proj.weight').values()
    stored = next(t for t in GGUFReader(path).tensors if t.name == name.decode())
    assert values.shape == (256, 256)
    expected = torch.from_numpy(dequantize(stored.data, stored.tensor_type).copy())
    torch.testing.assert_close(values, expected.view(256, 256), rtol=0, atol=0)


@pytest.mark.parametrize('family', ['llama', 'qwen2'])
@pytest.mark.parametrize('tied_head', [True, False])
def test_a_decoder_is_the_same_from_gguf(path: Path, family: str, tied_head: bool) -> None:
    config = tiny_config(family=family, tied_head=tied_head, qkv_bias=family == 'qwen2',
                         vocab_size=264)
    write_gguf(path, RandomCheckpoint(config))
    file = GgufFile(path)
    assert file.config == config
    read, expected = Decoder(config, load_weights(file, dtype='fp32')), random_decoder(config)
    token_ids = torch.arange(3, 40)[None]
    logits = [decoder.forward(token_ids, decoder.make_kv_cache(context_tokens=64), 37)[0]
              for decoder in (read, expected)]
    assert torch.equal(*logits)


@pytest.mark.parametrize('kind', ['Q4_1', 'Q8_0', 'F16'])
def test_rows_are_reordered_in_every_format(path: Path, kind: str) -> None:
    checkpoint = RandomCheckpoint(CONFIG)
    write_gguf(path, checkpoint, kind=kind)
    for part in ('q_proj', 'k_proj', 'v_proj'):
        name = f'model.layers.0.self_attn.{part}.weight'
        close = GgufFile(path).matrix(name).values() - tensors_of(checkpoint)[name]
        assert close.abs().max() < 0.05, part


def test_4_bits_are_recognised(path: Path) -> None:
    for kind, expected in (('Q4_0', True), ('Q4_1', True), ('Q8_0', False), ('F16', False)):
        write_gguf(path, RandomCheckpoint(CONFIG), kind=kind, head_kind='Q8_0')
        assert GgufFile(path).is_4bit is expected


def test_fingerprint_tells_weights_apart(path: Path) -> None:
    write_gguf(path, RandomCheckpoint(CONFIG))
    first = GgufFile(path).fingerprint()
    assert GgufFile(path).fingerprint() == first
    write_gguf(path, RandomCheckpoint(CONFIG, seed=1))
    assert GgufFile(path).fingerprint() != first


def test_a_tensor_of_another_shape(path: Path) -> None:
    write_gguf(path, RandomCheckpoint(CONFIG), changes={'llama.feed_forward_length': 128})
    with pytest.raises(ModelFormatError,
                       match=r"m.gguf: tensor 'blk.1.ffn_down.weight' has shape \[64, 96\], "
                             r'expected \[64, 128\]'):
        GgufFile(path).matrix(DOWN)


def test_a_missing_tensor(path: Path) -> None:
    write_gguf(path, RandomCheckpoint(CONFIG), changes={'llama.block_count': 3})
    with pytest.raises(ModelFormatError, match=r"tensor 'blk\.2\.ffn_up\.weight' is missing"):
        GgufFile(path).matrix('model.layers.2.mlp.up_proj.weight')
