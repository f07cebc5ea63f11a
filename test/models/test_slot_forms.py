# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Independent drafts in slots of 16, 8 and 4 bits: bytes, values, and what they propose."""

import dataclasses
import math

import pytest
import torch

from memspec_ros.models import independent_forms, independent_quantised, native_library
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.draft_checkpoint import open_checkpoint_draft
from memspec_ros.models.draft_content import open_draft_file
from memspec_ros.models.draft_file import DraftCard, read_draft_weights, write_draft_file
from memspec_ros.models.draft_kinds import Surroundings
from memspec_ros.models.draft_set import DraftSet
from memspec_ros.models.draft_slots import DraftSlots
from memspec_ros.models.independent_decoder import independent_decoder, independent_shapes
from memspec_ros.models.independent_draft import IndependentDraft
from memspec_ros.models.matrices import DenseMatrix
from memspec_ros.models.slot_forms import FormedMatrix, Int4Tiles, Int8Rows, NativeForm
from memspec_ros.testing.model_files import write_folder
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, tiny_config
from memspec_ros.testing.scripted_model import ScriptedContext, ScriptedTarget

CONTEXT_TOKENS = 32
VOCAB = 264
TOKENS = [(7 * index) % 256 for index in range(45)]
CONTEXT = ScriptedContext(tokens=TOKENS, prompt_length=5,
                          target=ScriptedTarget(end_ids=frozenset(), vocab_size=VOCAB))
BITS = {'bf16': 16.0, 'int8': 8.0, 'int4': 5.0}

needs_native = pytest.mark.skipif(not native_library.is_available(),
                                  reason='the native library is not built')


def make_config(**changes):
    return tiny_config(**{'vocab_size': VOCAB, 'hidden_size': 128, 'intermediate_size': 160,
                          'num_heads': 4, 'num_kv_heads': 2, 'head_dim': 32, **changes})


def random_weights(config, head_rows=None):
    generator = torch.Generator().manual_seed(1)
    shapes = independent_shapes(config, head_rows=head_rows)
    return {name: torch.randn(shape, generator=generator) / math.sqrt(shape[-1])
            if len(shape) == 2 else 1.0 + 0.1 * torch.randn(shape, generator=generator)
            for name, shape in shapes.items() if name != 'output_token_ids'}


def write_draft(path, config, storage, output_token_ids=None):
    card = DraftCard(kind='independent', domain='x', architecture=dataclasses.asdict(config),
                     tokenizer_checksum='', storage=storage)
    rows = None if output_token_ids is None else len(output_token_ids)
    write_draft_file(path, card, random_weights(config, rows), output_token_ids)
    return path


def surroundings_of(**changes):
    return Surroundings(**{'form': 'fp32', 'context_tokens': CONTEXT_TOKENS, 'vocab_size': VOCAB,
                           'hidden_size': 48, 'matrix_dtype': 'auto', **changes})


def loaded(content, **changes):
    """Return the set and a draft that was read into the second of two slots."""
    surroundings = surroundings_of(**changes)
    drafts = DraftSet({'d': lambda: content}, surroundings)
    assert drafts.unavailable == {}
    slots = DraftSlots(drafts, num_slots=2, surroundings=surroundings)
    slots.source('d')(1, should_cancel=lambda: False, throttle=lambda _: None)
    return drafts, slots.draft(1, 'd')


def reference(config, weights, output_token_ids=None):
    decoder = independent_decoder(config, weights, form='fp32', context_tokens=CONTEXT_TOKENS)
    kv_caches = tuple(decoder.make_kv_cache(context_tokens=CONTEXT_TOKENS) for _ in range(2))
    return IndependentDraft('r', decoder, kv_caches=kv_caches, context_tokens=CONTEXT_TOKENS,
                            output_token_ids=output_token_ids)


def agreement(first, second):
    """Share of positions at which both would have proposed the same."""
    proposals = [[draft.propose(dataclasses.replace(CONTEXT, tokens=TOKENS[:length]), 1)
                  for length in range(3, len(TOKENS))] for draft in (first, second)]
    return sum(a == b for a, b in zip(*proposals, strict=True)) / len(proposals[0])


@needs_native
@pytest.mark.parametrize('family', ['llama', 'qwen2'])
@pytest.mark.parametrize('storage', ['fp32', 'fp16', 'bf16', 'int8', 'int4'])
def test_a_draft_keeps_the_bits_of_its_file(tmp_path, family, storage):
    config = make_config(family=family, qkv_bias=family == 'qwen2', tied_head=storage != 'int8')
    path = write_draft(tmp_path / 'd', config, storage)
    drafts, draft = loaded(open_draft_file(path, name='d'))
    _, weights = read_draft_weights(path)
    assert agreement(draft, reference(config, weights)) > (
        0.99 if storage in ('fp32', 'fp16', 'bf16') else 0.85)
    bits = {'fp32': 32, 'fp16': 16, **BITS}[storage]
    assert drafts.slot_bytes == pytest.approx(config.num_weights * bits / 8, rel=0.06)


@needs_native
@pytest.mark.parametrize('dtype', ['bf16', 'int8', 'int4'])
@pytest.mark.parametrize('source', ['fp32', 'int4', 'checkpoint'])
def test_other_bits_are_rounded_to_on_the_way(tmp_path, dtype, source):
    config = make_config(tied_head=False)
    if source == 'checkpoint':
        write_folder(tmp_path / 'd', RandomCheckpoint(config), dtype=torch.bfloat16)
        content = open_checkpoint_draft(tmp_path / 'd', name='d')
        plain = loaded(content, matrix_dtype='')[1]
    else:
        content = open_draft_file(write_draft(tmp_path / 'd', config, source), name='d')
        plain = reference(config, read_draft_weights(tmp_path / 'd')[1])
    drafts, draft = loaded(content, matrix_dtype=dtype)
    # Logits of random weights are close to each other, and four bits are few.
    assert agreement(draft, plain) > {'bf16': 0.9, 'int8': 0.85, 'int4': 0.5}[dtype]
    layers = config.num_weights - 2 * VOCAB * config.hidden_size
    tables = 2 * VOCAB * config.hidden_size
    table_bits = 8 if dtype == 'int4' and source != 'int4' else BITS[dtype]
    assert drafts.slot_bytes == pytest.approx(
        (layers * BITS[dtype] + tables * table_bits) / 8, rel=0.08)


@needs_native
def test_a_trimmed_head_proposes_the_tokens_of_its_rows(tmp_path):
    config = make_config(tied_head=False)
    token_ids = torch.arange(5, 5 + 2 * 57, 2, dtype=torch.int32)
    path = write_draft(tmp_path / 'd', config, 'fp32', token_ids)
    _, draft = loaded(open_draft_file(path, name='d'))
    weights = {name: value for name, value in read_draft_weights(path)[1].items()
               if name != 'output_token_ids'}
    assert agreement(draft, reference(config, weights, token_ids)) > 0.99


@needs_native
def test_rows_beyond_the_targets_vocabulary_are_never_proposed(tmp_path):
    content = open_draft_file(write_draft(tmp_path / 'd', make_config(), 'int8'), name='d')
    _, draft = loaded(content, vocab_size=9)
    target = ScriptedTarget(end_ids=frozenset(), vocab_size=9)
    proposed = draft.propose(dataclasses.replace(CONTEXT, target=target), 20)
    assert len(proposed) == 20
    assert max(proposed) < 9


@needs_native
def test_codes_of_the_file_are_kept(tmp_path):
    config = make_config()
    for storage, tolerance in (('int8', 0.0), ('int4', 2e-4)):
        path = write_draft(tmp_path / storage, config, storage)
        content = open_draft_file(path, name='d')
        drafts = DraftSet({'d': lambda content=content: content}, surroundings_of())
        slots = DraftSlots(drafts, num_slots=1, surroundings=surroundings_of())
        slots.source('d')(0, should_cancel=lambda: False, throttle=lambda _: None)
        layout = drafts.layout(content)
        views = slots._slots[0].views(layout)
        _, weights = read_draft_weights(path)
        for name in ('embedding', 'layers.1.gate_up', 'layers.0.down'):
            form, (rows, columns) = layout.tensors[name].form, weights[name].shape
            values = form.packed(views[name], columns, 0, rows).values()
            assert torch.allclose(values, weights[name], atol=tolerance, rtol=0), name
            part = form.packed(views[name], columns, 32, 16).values()
            assert torch.equal(part, values[32:48])


def test_without_the_library_drafts_are_floats(tmp_path, monkeypatch):
    monkeypatch.setattr(independent_forms.native_library, 'is_available', lambda: False)
    path = write_draft(tmp_path / 'd', make_config(), 'int8')
    content = open_draft_file(path, name='d')
    drafts, draft = loaded(content, matrix_dtype='int4')
    assert drafts.slot_bytes == pytest.approx(4 * make_config().num_weights, rel=0.01)
    assert agreement(draft, reference(make_config(), read_draft_weights(path)[1])) == 1.0


def test_sizes_without_kernels_are_floats(tmp_path):
    config = DecoderConfig(**{**dataclasses.asdict(make_config()), 'rope': make_config().rope,
                              'hidden_size': 40, 'num_heads': 2, 'num_kv_heads': 1,
                              'head_dim': 20})
    content = open_draft_file(write_draft(tmp_path / 'd', config, 'fp32'), name='d')
    drafts, _ = loaded(content)
    assert drafts.slot_bytes == pytest.approx(4 * config.num_weights, rel=0.02)


@pytest.mark.parametrize('form', ['fp32', 'bf16'])
@pytest.mark.parametrize('tied_head', [True, False])
def test_8_bit_rows_on_pytorchs_kernels(tmp_path, monkeypatch, form, tied_head):
    """What CUDA runs, but for its kernels, on the CPU."""
    monkeypatch.setattr(independent_forms, 'NativeForm', lambda _: Int8Rows())
    monkeypatch.setattr(independent_forms.native_library, 'is_available', lambda: True)
    config = make_config(family='qwen2', qkv_bias=True, tied_head=tied_head)
    path = write_draft(tmp_path / 'd', config, 'int8')
    _, draft = loaded(open_draft_file(path, name='d'), form=form)
    agreed = agreement(draft, reference(config, read_draft_weights(path)[1]))
    assert agreed > (0.99 if form == 'fp32' else 0.8)


@pytest.mark.parametrize('has_kernel', [True, False])
def test_a_product_with_8_bit_rows(monkeypatch, has_kernel):
    monkeypatch.setattr(independent_quantised, 'has_int8_kernel', lambda _: has_kernel)
    monkeypatch.setattr(independent_quantised, 'CODES_AT_ONCE', 16)
    codes = torch.randint(-127, 128, (40, 64), dtype=torch.int8)
    scales, states = torch.rand(40) * 0.01, torch.randn(3, 64)
    expected = states @ (codes * scales[:, None]).t()
    largest = float(expected.abs().max())
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 0.05)):
        found = independent_quantised.int8_product(states.to(dtype), codes, scales.to(dtype))
        assert torch.allclose(found.float(), expected, atol=tolerance * largest)


def test_forms_on_cuda(tmp_path):
    """Layers in tiles of 4 bits, tables in 8; what has no tiles in 8 too."""
    config = make_config(tied_head=False)
    content = open_draft_file(write_draft(tmp_path / 'd', config, 'bf16'), name='d')
    forms = {dtype: independent_forms.matrix_forms(
        content, config, surroundings_of(device='cuda', form='bf16', matrix_dtype=dtype))
        for dtype in ('auto', 'bf16', 'int8', 'int4')}
    assert forms['auto'] == forms['bf16'] == {}
    assert {type(form) for form in forms['int8'].values()} == {Int8Rows}
    assert type(forms['int4']['head']) is type(forms['int4']['embedding']) is Int8Rows
    assert type(forms['int4']['layers.0.qkv']) is Int4Tiles
    assert forms['int4']['layers.0.qkv'].num_bytes((256, 128)) == 256 * 128 * 5 // 8


@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a CUDA device')
@pytest.mark.parametrize('dtype', ['bf16', 'int8', 'int4'])
def test_on_cuda_a_draft_proposes_about_the_same(tmp_path, dtype):
    config = make_config(tied_head=False)
    path = write_draft(tmp_path / 'd', config, 'fp32')
    _, draft = loaded(open_draft_file(path, name='d'), device='cuda', form='bf16',
                      matrix_dtype=dtype)
    agreed = agreement(draft, reference(config, read_draft_weights(path)[1]))
    assert agreed > {'bf16': 0.8, 'int8': 0.8, 'int4': 0.5}[dtype]


def test_8_bit_rows_round_trip():
    form, values = Int8Rows(), torch.randn(40, 64)
    memory = torch.empty(form.num_bytes((40, 64)), dtype=torch.uint8)
    matrix = FormedMatrix(form=form, shape=(40, 64), memory=memory)
    matrix.write(0, DenseMatrix(data=values[:32]))
    matrix.write(32, DenseMatrix(data=values[32:]))
    codes, scales = form.parts(memory, (40, 64))
    assert (codes * scales[:, None] - values).abs().max() < values.abs().max() / 200


@needs_native
def test_bytes_of_the_native_forms():
    shape = (160, 128)
    assert NativeForm('int8').num_bytes(shape) == 160 * 128 + 4 * 160
    assert NativeForm('int4').num_bytes(shape) == 160 * 128 * 5 // 8
    assert NativeForm('bf16').num_bytes(shape) == 2 * 160 * 128
