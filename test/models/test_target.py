# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Loading targets from both formats on each backend, against the same weights in floats."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from memspec_ros.config import TargetSettings
from memspec_ros.errors import ConfigError, ModelFormatError, ModelNotFoundError
from memspec_ros.models import native_library
from memspec_ros.models.checkpoint_forms import CheckpointInForm
from memspec_ros.models.decoder import Decoder
from memspec_ros.models.embedding import embedding_rows
from memspec_ros.models.gguf_file import GgufFile
from memspec_ros.models.safetensors_folder import SafetensorsFolder
from memspec_ros.models.target import LoadedTarget, load_target, num_threads
from memspec_ros.models.weights import load_weights
from memspec_ros.records import ChatMessage
from memspec_ros.testing.model_files import write_folder, write_gguf, write_tokenizer
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, tiny_config

CONFIG = tiny_config(vocab_size=272, hidden_size=128, intermediate_size=192, head_dim=32)
TOKENS = [(11 * i + i * i) % 260 for i in range(90)]
BACKENDS = ['native', 'torch']


@pytest.fixture(scope='module')
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp('gguf') / 'tiny.gguf'
    write_gguf(path, RandomCheckpoint(CONFIG), kind='Q4_1', head_kind='Q8_0')
    return path


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp('folder') / 'tiny'
    write_folder(path, RandomCheckpoint(CONFIG), dtype=torch.bfloat16)
    return path


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the native library serve, or not."""
    if request.param == 'native' and not native_library.is_available():
        pytest.skip('the native library was not built')
    if request.param == 'torch':
        monkeypatch.setattr(native_library, 'is_available', lambda: False)
    return request.param


def load(path: Path, **options) -> LoadedTarget:
    settings = {'context_tokens': 100, 'num_threads': 1, 'device': 'cpu', **options}
    return load_target(TargetSettings(model=str(path), **settings))


def reference(path: Path) -> torch.Tensor:
    """Return logits of TOKENS from the file's values as they are, in float32."""
    decoder = Decoder(CONFIG, load_weights(GgufFile(path), dtype='fp32'))
    return decoder.forward(torch.tensor([TOKENS]), decoder.make_kv_cache(context_tokens=90), 90)[0]


@pytest.mark.parametrize(('dtype', 'bound'), [('fp32', 1e-4), ('bf16', 0.04), ('int4', 0.04)])
def test_logits_follow_the_files_values(gguf: Path, backend: str, dtype: str,
                                        bound: float) -> None:
    loaded = load(gguf, dtype=dtype)
    assert (loaded.description.backend, loaded.description.dtype) == (backend, dtype)
    logits = loaded.target.extend(TOKENS, 90)
    expected = reference(gguf)[0]
    assert (logits.float() - expected).abs().mean() < bound * expected.std()


def test_auto_keeps_4_bits_and_makes_others_bf16(gguf: Path, folder: Path, backend: str) -> None:
    assert load(gguf).description.dtype == 'int4'
    loaded = load(folder)
    assert (loaded.description.dtype, loaded.description.backend) == ('bf16', backend)


@pytest.mark.usefixtures('backend')
@pytest.mark.parametrize('dtype', ['fp32', 'int4'])
def test_deterministic_targets_agree_bit_for_bit(gguf: Path, dtype: str) -> None:
    whole = load(gguf, dtype=dtype, deterministic=True).target
    parts = load(gguf, dtype=dtype, deterministic=True).target
    draw = random.Random(3)
    expected = whole.extend(TOKENS, 90).clone()
    for _ in range(5):
        found = []
        while parts.length < 90:
            width = min(draw.randrange(1, 20), 90 - parts.length)
            found.append(parts.extend(TOKENS[parts.length:parts.length + width], width).clone())
        assert torch.equal(torch.cat(found), expected)
        parts.rollback(0)


@pytest.mark.usefixtures('backend')
@pytest.mark.parametrize('dtype', ['fp32', 'bf16', 'int4'])
def test_bytes_are_as_described(gguf: Path, folder: Path, dtype: str) -> None:
    for path in (gguf, folder):
        loaded = load(path, dtype=dtype)
        assert loaded.num_bytes == pytest.approx(loaded.description.weight_bytes, rel=0.1)
        assert loaded.kv_bytes == pytest.approx(loaded.description.kv_bytes, rel=0.2)


@pytest.mark.usefixtures('backend')
def test_hidden_states_feed_the_head(gguf: Path) -> None:
    loaded = load(gguf, dtype='fp32')
    logits = loaded.target.extend(TOKENS[:20], 20).clone()
    states = loaded.target.hidden_states(0, 20).float()
    assert states.shape == (20, 128)
    torch.testing.assert_close(states @ loaded.output_rows().t(), logits, rtol=1e-3, atol=1e-3)


def test_shared_tables(tmp_path: Path) -> None:
    checkpoint = RandomCheckpoint(tiny_config(vocab_size=272, tied_head=False))
    write_folder(tmp_path, checkpoint)
    loaded = load(tmp_path, dtype='bf16')
    assert torch.equal(loaded.embedding(),
                       checkpoint.matrix('model.embed_tokens.weight').values())
    assert torch.equal(loaded.output_rows(torch.bfloat16),
                       checkpoint.matrix('lm_head.weight').values().bfloat16())


def test_drafts_borrow_the_embedding_that_is_there(gguf: Path, backend: str) -> None:
    loaded = load(gguf, dtype='fp32')
    table = loaded.shared_embedding()
    assert isinstance(table, torch.Tensor) == (backend == 'torch')
    tokens = torch.tensor([[0, 7], [250, 7]])
    assert torch.equal(embedding_rows(table, tokens), loaded.embedding()[tokens])


def test_tokenizer_and_names(gguf: Path, tmp_path: Path) -> None:
    loaded = load(gguf)
    assert (loaded.name, loaded.target.end_ids) == ('tiny', {0})
    chat = loaded.tokenizer.encode_chat([ChatMessage(role='user', content='ab')])
    assert chat == [2, 260, 0, 3]
    write_tokenizer(tmp_path)
    other = load(gguf, tokenizer=str(tmp_path))
    assert other.tokenizer.content_checksum() == loaded.tokenizer.content_checksum()


def test_checksum_is_of_the_file(gguf: Path, folder: Path) -> None:
    assert load(gguf, dtype='fp32').checksum == load(gguf, dtype='int4').checksum
    assert load(gguf).checksum != load(folder).checksum


def test_stages_are_reported_with_sizes(gguf: Path) -> None:
    lines: list[str] = []
    load_target(TargetSettings(model=str(gguf), context_tokens=100, num_threads=1),
                report=lines.append)
    assert any('weights 0 MB, KV cache of 100 tokens 0 MB' in line for line in lines)


def test_relative_paths_start_at_the_roots(gguf: Path) -> None:
    loaded = load_target(TargetSettings(model='tiny.gguf', context_tokens=64, num_threads=1),
                         roots=[gguf.parent])
    assert loaded.description.path == gguf


@pytest.mark.usefixtures('backend')
def test_a_rounded_folder_equals_its_own_values(folder: Path) -> None:
    rounded = CheckpointInForm(SafetensorsFolder(folder), 'int4')
    decoder = Decoder(CONFIG, load_weights(rounded, dtype='fp32'))
    expected = decoder.forward(torch.tensor([TOKENS]),
                               decoder.make_kv_cache(context_tokens=90), 90)[0][0]
    logits = load(folder, dtype='int4').target.extend(TOKENS, 90).float()
    assert (logits - expected).abs().mean() < 0.06 * expected.std()


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('os.sched_getaffinity', lambda _: {0, 2, 5})
    assert num_threads(TargetSettings()) == 3
    assert num_threads(TargetSettings(num_threads=2)) == 2


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='the model reference is empty'):
        load_target(TargetSettings())
    with pytest.raises(ModelNotFoundError, match=r"no model at '.*none\.gguf'"):
        load(tmp_path / 'none.gguf')
    write_gguf(tmp_path / 'small.gguf', RandomCheckpoint(tiny_config(vocab_size=64)))
    with pytest.raises(ModelFormatError, match='the tokenizer has 261 tokens, the model 64'):
        load(tmp_path / 'small.gguf')
