# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Other architectures through transformers: the same boundary, cursor and refusals."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
import torch

from memspec_ros.config import TargetSettings
from memspec_ros.errors import (
    ConfigError,
    DependencyError,
    ModelError,
    ModelFormatError,
    UnsupportedModelError,
)
from memspec_ros.models.target import load_target
from memspec_ros.models.target_description import describe_target
from memspec_ros.models.transformers_target import TransformersTarget
from memspec_ros.testing.model_files import write_tokenizer

transformers = pytest.importorskip('transformers')

SIZES = {'vocab_size': 272, 'hidden_size': 32, 'intermediate_size': 64, 'num_hidden_layers': 2,
         'num_attention_heads': 4, 'num_key_value_heads': 2, 'max_position_embeddings': 256}
TOKENS = [(7 * i + i * i) % 260 for i in range(60)]


def make_model(family: str, **options):
    torch.manual_seed(5)
    config = transformers.AutoConfig.for_model(family, **{**SIZES, **options})
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.15)
    return model


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp('hub') / 'neox'
    make_model('gpt_neox', num_key_value_heads=None).save_pretrained(path)
    write_tokenizer(path)
    return path


def change(folder: Path, target: Path, **changes: object) -> Path:
    """Copy config.json with changes; None takes a field away."""
    document = {**json.loads((folder / 'config.json').read_text()), **changes}
    (target / 'config.json').write_text(json.dumps(
        {key: value for key, value in document.items() if value is not None}))
    return target


@pytest.mark.parametrize('family', ['gpt_neox', 'phi', 'mistral'])
def test_any_split_gives_the_models_logits(family: str) -> None:
    model = make_model(family)
    with torch.inference_mode():
        expected = model(torch.tensor([TOKENS])).logits[0]
    target = TransformersTarget(model, context_tokens=64)
    draw = random.Random(2)
    for _ in range(3):
        target.rollback(0)
        start = 0
        while start < 60:
            kept = min(draw.randrange(1, 9), 60 - start)
            wrong = [draw.randrange(260) for _ in range(min(draw.randrange(4), 60 - start - kept))]
            logits = target.extend(TOKENS[start:start + kept] + wrong, kept + len(wrong))
            torch.testing.assert_close(logits[:kept], expected[start:start + kept], rtol=1e-4,
                                       atol=1e-4)
            start += kept
            target.rollback(start)


def test_memory_is_taken_once() -> None:
    target = TransformersTarget(make_model('phi'), context_tokens=64)
    target.extend(TOKENS[:5], 0)
    pointers = [slot.data_ptr() for layer in target._cache.layers for slot in layer.slots]
    num_bytes = target.kv_bytes
    target.extend(TOKENS[5:50], 1)
    target.rollback(3)
    target.extend(TOKENS[3:60], 1)
    assert [s.data_ptr() for layer in target._cache.layers for s in layer.slots] == pointers
    assert target.kv_bytes == num_bytes == 2 * 2 * 64 * 16 * 4 + 64 * 32 * 4


def test_hidden_states_are_after_the_final_norm() -> None:
    model = make_model('mistral')
    target = TransformersTarget(model, context_tokens=64)
    logits = target.extend(TOKENS[:20], 20)
    with torch.inference_mode():
        again = model.lm_head(target.hidden_states(0, 20))
    torch.testing.assert_close(again, logits)
    assert target.extend(TOKENS[20:22], 0).shape == (0, 272)


def test_refusals() -> None:
    target = TransformersTarget(make_model('phi'), context_tokens=64)
    target.extend(TOKENS[:50], 0)
    with pytest.raises(ModelError, match='50 tokens in the KV cache and 20 more pass the context'):
        target.extend([1] * 20, 0)
    with pytest.raises(ModelError, match='token 272 or 272 is not in the vocabulary of 272'):
        target.extend([272], 0)
    with pytest.raises(ModelError, match='back to 51: it holds 50 tokens'):
        target.rollback(51)


def test_auto_takes_transformers_for_other_architectures(folder: Path) -> None:
    settings = TargetSettings(model=str(folder), context_tokens=100, device='cpu', num_threads=1)
    loaded = load_target(settings)
    assert (loaded.description.backend, loaded.description.dtype) == ('transformers', 'bf16')
    assert loaded.description.architecture == 'gpt_neox'
    assert loaded.num_bytes == loaded.description.weight_bytes
    assert loaded.kv_bytes == loaded.description.kv_bytes == 100 * (2 * 2 * 32 + 32) * 2
    assert loaded.target.end_ids == {0, 2}  # the tokenizer's, and generation_config.json's


def test_fast_refuses_other_architectures(folder: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="model_type is 'gpt_neox'"):
        describe_target(TargetSettings(model=str(folder), backend='fast'))


def test_deterministic_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match='deterministic is set; the transformers backend cannot'):
        describe_target(TargetSettings(model=str(folder), deterministic=True))


def test_4_bits_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="dtype is 'int4'; the transformers backend has bf16"):
        describe_target(TargetSettings(model=str(folder), dtype='int4'))


def test_without_transformers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'transformers', None)
    with pytest.raises(DependencyError, match='pip install transformers'):
        load_target(TargetSettings(model=str(folder), context_tokens=64, num_threads=1))


def test_what_transformers_cannot_load_is_told(folder: Path, tmp_path: Path) -> None:
    change(folder, tmp_path, model_type='no_such_model')
    write_tokenizer(tmp_path)
    (tmp_path / 'model.safetensors').write_bytes((folder / 'model.safetensors').read_bytes())
    with pytest.raises(ModelFormatError, match='transformers cannot load it'):
        load_target(TargetSettings(model=str(tmp_path), context_tokens=64, num_threads=1))


def test_sliding_windows_are_refused_where_they_would_slide(folder: Path,
                                                            tmp_path: Path) -> None:
    change(folder, tmp_path, sliding_window=80)
    (tmp_path / 'model.safetensors').write_bytes((folder / 'model.safetensors').read_bytes())
    settings = TargetSettings(model=str(tmp_path), context_tokens=81, backend='transformers')
    with pytest.raises(UnsupportedModelError, match=r'slides over 80 positions, which cannot '
                                                    r'be rolled back; .* is 81'):
        describe_target(settings)
    describe_target(TargetSettings(model=str(tmp_path), context_tokens=80))
