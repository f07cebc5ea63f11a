# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""GPTQ folders in every form that is read: their values, their logits, and what is refused."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from gptq_checkpoints import FloatCheckpoint, GptqForm, write_gptq, write_shards
from safetensors.torch import load_file, save_file

from memspec_ros.config import TargetSettings
from memspec_ros.errors import (
    ModelError,
    ModelFormatError,
    ModelNotFoundError,
    UnsupportedModelError,
)
from memspec_ros.models import native_library
from memspec_ros.models.checkpoint import open_checkpoint
from memspec_ros.models.checkpoint_forms import CheckpointInForm
from memspec_ros.models.decoder import Decoder
from memspec_ros.models.gptq_folder import GptqFolder
from memspec_ros.models.native_decoder import NativeDecoder, NativeWeights, shared_pool
from memspec_ros.models.target import load_target
from memspec_ros.models.target_description import describe_target
from memspec_ros.models.weights import load_weights
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, tiny_config

SIZES = {'vocab_size': 264, 'hidden_size': 128, 'intermediate_size': 256, 'num_heads': 4,
         'num_kv_heads': 2, 'head_dim': 32, 'tied_head': False}
FAMILIES = {'llama': {}, 'qwen2': {'family': 'qwen2', 'qkv_bias': True}}
FORMS = [GptqForm(group=group, symmetric=symmetric, act_order=act_order, version=version)
         for group, symmetric, act_order, version in itertools.product(
             (128, 32, -1), (True, False), (True, False), (1, 2))] + [
    GptqForm(bits=8), GptqForm(bits=8, group=32, symmetric=False, act_order=True)]
PROMPT = list(range(3, 43))
NAME = 'model.layers.1.mlp.down_proj'
# Largest error of a logit over the largest logit. float32: sums in another order. int4 (torch):
# bfloat16 activations and scales. native: activations in 8 bits per 32 columns.
BOUNDS = {'fp32': 1e-5, 'int4': 0.05, 'native': 0.06}


def config_of(family: str, **changes: Any):
    return tiny_config(**{**SIZES, **FAMILIES[family], **changes})


def name_of(form: GptqForm) -> str:
    return (f'{form.bits}bit-g{form.group}-{"sym" if form.symmetric else "asym"}'
            f'{"-act" if form.act_order else ""}-v{form.version}')


def logits_of(file: Any, form: str) -> torch.Tensor:
    config = file.config
    if form == 'native':
        weights = NativeWeights.from_checkpoint(CheckpointInForm(file, 'int4', keeps_tables=True))
        decoder = NativeDecoder(config, weights, context_tokens=64, pool=shared_pool(1))
        return decoder.forward(PROMPT, decoder.make_kv_cache(context_tokens=64),
                               len(PROMPT))[0].clone()
    eager = Decoder(config, load_weights(file, dtype=form))
    return eager.forward(torch.tensor([PROMPT]), eager.make_kv_cache(context_tokens=64),
                         len(PROMPT))[0][0].float()


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize('family', FAMILIES)
@pytest.mark.parametrize('form', FORMS, ids=name_of)
def test_logits_are_those_of_the_weights_meant(tmp_path: Path, family: str,
                                               form: GptqForm) -> None:
    meant = write_gptq(tmp_path, RandomCheckpoint(config_of(family)), form)
    file = open_checkpoint(tmp_path)
    for name, tensor in meant.tensors.items():
        found = file.matrix(name).values() if tensor.dim() == 2 else file.vector(name)
        assert torch.equal(found, tensor), name
    expected = logits_of(meant, 'fp32')
    assert relative_error(logits_of(file, 'fp32'), expected) < BOUNDS['fp32']
    if form.bits == 8:
        return
    assert relative_error(logits_of(file, 'int4'), expected) < BOUNDS['int4']
    if native_library.is_available():
        assert relative_error(logits_of(file, 'native'), expected) < BOUNDS['native']


def test_columns_that_are_no_multiple_of_the_group(tmp_path: Path) -> None:
    config = config_of('llama', hidden_size=192, num_heads=6, num_kv_heads=3)
    for act_order in (False, True):
        form = GptqForm(group=128, act_order=act_order, symmetric=False)
        meant = write_gptq(tmp_path, RandomCheckpoint(config), form)
        file = open_checkpoint(tmp_path)
        matrix = file.matrix('model.layers.0.mlp.up_proj.weight')
        assert matrix.group == 64
        assert torch.equal(matrix.values(), meant.tensors['model.layers.0.mlp.up_proj.weight'])
        expected = logits_of(meant, 'fp32')
        assert relative_error(logits_of(file, 'int4'), expected) < BOUNDS['int4']


def test_orders_that_differ_between_query_key_and_value(tmp_path: Path) -> None:
    """A file may say so, though GPTQ gives matrices with the same inputs the same order."""
    form = GptqForm(group=32, act_order=True)
    checkpoint = RandomCheckpoint(config_of('qwen2'))
    meant = write_gptq(tmp_path, checkpoint, form)
    other = write_gptq(tmp_path / 'other', checkpoint, GptqForm(group=32))
    tensors = load_file(tmp_path / 'model.safetensors')
    plain = load_file(tmp_path / 'other' / 'model.safetensors')
    stem = 'model.layers.0.self_attn.k_proj'
    tensors.update({name: value for name, value in plain.items() if name.startswith(stem)})
    save_file(tensors, tmp_path / 'model.safetensors')
    meant = FloatCheckpoint(meant.config, {
        **meant.tensors, f'{stem}.weight': other.tensors[f'{stem}.weight']})
    expected = logits_of(meant, 'fp32')
    file = open_checkpoint(tmp_path)
    assert relative_error(logits_of(file, 'int4'), expected) < BOUNDS['int4']
    if native_library.is_available():
        assert relative_error(logits_of(file, 'native'), expected) < BOUNDS['native']


@pytest.mark.parametrize('num_shards', [1, 3])
@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_shards_and_dtypes(tmp_path: Path, num_shards: int, dtype: torch.dtype) -> None:
    meant = write_gptq(tmp_path, RandomCheckpoint(config_of('qwen2')), GptqForm(group=32),
                       dtype=dtype, num_shards=num_shards, settings_file='quantize_config.json',
                       zero_biases=True)
    file = open_checkpoint(tmp_path)
    assert file.is_4bit
    assert torch.equal(file.matrix(f'{NAME}.weight').values(), meant.tensors[f'{NAME}.weight'])
    assert file.matrix('lm_head.weight').data.dtype is dtype


@pytest.mark.parametrize('symmetric', [True, False])
def test_it_serves_as_a_target_and_takes_what_was_said(tmp_path: Path, symmetric: bool) -> None:
    write_gptq(tmp_path, RandomCheckpoint(config_of('llama', tied_head=True)),
               GptqForm(group=32, symmetric=symmetric))
    settings = TargetSettings(model=str(tmp_path), device='cpu', context_tokens=64)
    described = describe_target(settings)
    assert described.dtype == 'int4'
    loaded = load_target(settings)
    assert loaded.num_bytes == pytest.approx(described.weight_bytes, rel=0.01)
    assert loaded.target.extend([5, 6, 7], 1).isfinite().all()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_gptq(tmp_path, RandomCheckpoint(config_of('llama')), GptqForm(group=32))
    return tmp_path


def change_settings(folder: Path, **changes: Any) -> None:
    file = folder / 'config.json'
    document = json.loads(file.read_text())
    document['quantization_config'].update(changes)
    file.write_text(json.dumps(document))


def change_tensor(folder: Path, name: str, value: torch.Tensor | None) -> None:
    tensors = load_file(folder / 'model.safetensors')
    tensors.pop(name, None)
    if value is not None:
        tensors[name] = value
    save_file(tensors, folder / 'model.safetensors')


@pytest.mark.parametrize(('changes', 'error', 'message'), [
    ({'bits': 3}, UnsupportedModelError, 'GPTQ bits is 3; read are 4 and 8'),
    ({'bits': 8}, ModelFormatError, r'\[16, 128\]; 8 bits in groups of 32 need int32 \[32, 128\]'),
    ({'bits': '4'}, ModelFormatError, "GPTQ setting bits is '4'; it must be an integer"),
    ({'group_size': 64}, ModelFormatError, r'4 bits in groups of 64 need int32 \[2, 16\]'),
    ({'group_size': 20}, UnsupportedModelError, 'group_size is 20; read are -1'),
    ({'checkpoint_format': 'marlin'}, UnsupportedModelError, "checkpoint_format is 'marlin'"),
    ({'checkpoint_format': 'gptq_v2'}, ModelFormatError,
     r'zero point 7, but the checkpoint says sym, which makes all 8: sym or checkpoint_format '
     r'\(gptq_v2\) is wrong'),
    ({'quant_method': 'awq'}, UnsupportedModelError, "quantised by 'awq'"),
    ({'lm_head': True}, UnsupportedModelError, 'lm_head is True'),
    ({'dynamic': {'.*': {'bits': 8}}}, UnsupportedModelError, 'setting dynamic is'),
    ({'pack_dtype': 'int16'}, UnsupportedModelError, "pack_dtype is 'int16'"),
    ({'sym': 1}, ModelFormatError, 'setting sym is 1; it must be true or false'),
])
def test_settings_that_cannot_be(folder: Path, changes: dict[str, Any], error: type,
                                 message: str) -> None:
    change_settings(folder, **changes)
    with pytest.raises(error, match=message) as caught:
        open_checkpoint(folder)
    assert str(folder) in str(caught.value)


def test_a_group_that_does_not_exist(folder: Path) -> None:
    index = load_file(folder / 'model.safetensors')[f'{NAME}.g_idx'].clone()
    for value, said in ((8, '0 to 8'), (-1, '-1 to 7')):
        index[-1 if value > 0 else 0] = value
        change_tensor(folder, f'{NAME}.g_idx', index)
        with pytest.raises(ModelFormatError, match=rf'down_proj\.g_idx has groups {said}; 256 '
                                                   'columns in groups of 32 have 0 to 7'):
            open_checkpoint(folder).matrix(f'{NAME}.weight')
        index[-1] = 7


def test_groups_of_unequal_size(folder: Path) -> None:
    index = load_file(folder / 'model.safetensors')[f'{NAME}.g_idx'].clone()
    index[0] = 1
    change_tensor(folder, f'{NAME}.g_idx', index)
    with pytest.raises(ModelFormatError, match='puts 31 to 33 columns into a group'):
        open_checkpoint(folder).matrix(f'{NAME}.weight')


def test_without_g_idx_columns_are_in_order(folder: Path) -> None:
    expected = open_checkpoint(folder).matrix(f'{NAME}.weight').values()
    change_tensor(folder, f'{NAME}.g_idx', None)
    assert torch.equal(open_checkpoint(folder).matrix(f'{NAME}.weight').values(), expected)


def test_tensors_that_are_missing_or_of_another_kind(folder: Path) -> None:
    change_tensor(folder, f'{NAME}.scales', None)
    with pytest.raises(ModelFormatError, match=r"down_proj\.scales' is missing from 1 safe"):
        open_checkpoint(folder)
    change_tensor(folder, f'{NAME}.scales', torch.zeros(8, 128, dtype=torch.int32))
    with pytest.raises(ModelFormatError, match=r'int32 \[8, 128\]; .* need floats \[8, 128\]'):
        open_checkpoint(folder)


def test_a_bias_that_the_family_has_not(folder: Path) -> None:
    change_tensor(folder, f'{NAME}.bias', torch.ones(128))
    with pytest.raises(UnsupportedModelError, match=r"down_proj\.bias' is not zero"):
        open_checkpoint(folder).matrix(f'{NAME}.weight')


def test_tied_and_untied_heads_mixed_up(folder: Path) -> None:
    document = json.loads((folder / 'config.json').read_text())
    (folder / 'config.json').write_text(json.dumps({**document, 'tie_word_embeddings': True}))
    with pytest.raises(ModelFormatError, match=r"true, but 'lm_head\.weight' is not"):
        open_checkpoint(folder)
    table = load_file(folder / 'model.safetensors')['model.embed_tokens.weight']
    change_tensor(folder, 'lm_head.weight', table.clone())
    assert open_checkpoint(folder).config.tied_head
    change_tensor(folder, 'lm_head.weight', None)
    assert open_checkpoint(folder).config.tied_head
    (folder / 'config.json').write_text(json.dumps({**document, 'tie_word_embeddings': False}))
    with pytest.raises(ModelFormatError, match=r"false, but there is no 'lm_head\.weight'"):
        open_checkpoint(folder)


def test_a_missing_shard(tmp_path: Path) -> None:
    write_gptq(tmp_path, RandomCheckpoint(config_of('llama')), GptqForm(), num_shards=3)
    (tmp_path / 'model-00002-of-00003.safetensors').unlink()
    with pytest.raises(ModelNotFoundError, match='model-00002-of-00003'):
        open_checkpoint(tmp_path)


def test_another_architecture(folder: Path) -> None:
    document = json.loads((folder / 'config.json').read_text())
    (folder / 'config.json').write_text(json.dumps({**document, 'model_type': 'mistral'}))
    with pytest.raises(UnsupportedModelError, match="model_type is 'mistral'"):
        open_checkpoint(folder)


def test_it_never_reads_beyond_a_file_that_shrank(folder: Path) -> None:
    file = GptqFolder(folder)
    data = (folder / 'model.safetensors').read_bytes()
    (folder / 'model.safetensors').write_bytes(data[:len(data) // 2])
    with pytest.raises(ModelError, match='the file has changed'):
        load_weights(file, dtype='int4')


def test_writing_shards_leaves_no_tensor_out(tmp_path: Path) -> None:
    write_shards(tmp_path, {f't{index}': torch.zeros(1) for index in range(7)}, 3)
    assert len(json.loads((tmp_path / 'model.safetensors.index.json').read_text())[
        'weight_map']) == 7
