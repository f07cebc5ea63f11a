# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Feature-conditioned drafts in slots: what fits, what is refused, what is made at a load."""

import dataclasses

import pytest
import torch

from memspec_ros.errors import ModelFormatError
from memspec_ros.models import feature_kind, native_library
from memspec_ros.models.draft_content import open_draft_file
from memspec_ros.models.draft_file import DraftCard, read_draft_weights, write_draft_file
from memspec_ros.models.draft_kinds import Surroundings
from memspec_ros.models.feature_head import add_head
from memspec_ros.models.feature_kind import HEAD, PACKED, FeatureKind
from memspec_ros.models.feature_network import FeatureConfig

CONFIG = FeatureConfig(hidden_size=64, rows=24, width=32, num_heads=2, intermediate=32,
                       window=16)


@pytest.fixture
def draft_file(tmp_path):
    generator = torch.Generator().manual_seed(0)
    weights = {name: torch.randn(shape, generator=generator)
               for name, shape in CONFIG.shapes().items()}
    card = DraftCard(kind='feature', domain='general', tokenizer_checksum='',
                     architecture=dataclasses.asdict(CONFIG), storage='int8')
    write_draft_file(tmp_path / 'd.safetensors', card, weights, torch.arange(3, 27))
    return tmp_path / 'd.safetensors'


def make_surroundings(**changes):
    embedding = torch.randn(40, 64, generator=torch.Generator().manual_seed(1))
    return Surroundings(**{'form': 'fp32', 'context_tokens': 64, 'vocab_size': 40,
                           'hidden_size': 64, 'embedding': embedding, **changes})


def slot_views(layout):
    memory = torch.zeros(layout.num_bytes + 64, dtype=torch.uint8)
    memory = memory[-memory.data_ptr() % 64:]
    return {name: memory[t.offset:t.offset + t.num_bytes].view(t.dtype).view(t.shape)
            for name, t in layout.tensors.items()}


@pytest.mark.parametrize('is_native', [True, False])
def test_a_load_makes_the_head_and_a_draft_that_proposes(draft_file, monkeypatch, is_native):
    if not is_native:
        monkeypatch.setattr(feature_kind, 'is_packable', lambda _: False)
    kind, surroundings = FeatureKind(), make_surroundings()
    content = open_draft_file(draft_file, name='d')
    kind.check(content, surroundings)
    views = slot_views(kind.layout(content, surroundings))
    _, weights = read_draft_weights(draft_file)
    for name, weight in weights.items():
        views[name].copy_(weight)
    kind.derive(content, views, surroundings, lambda: False)
    expected = surroundings.embedding[3:27] @ weights['out']
    torch.testing.assert_close(views[HEAD], expected)
    memory = torch.zeros(kind.memory_bytes(content, surroundings), dtype=torch.uint8)
    draft = kind.make(content, views, memory, surroundings)
    assert draft.name == 'd'
    assert PACKED not in views or is_native


@pytest.mark.skipif(not native_library.is_available(),
                    reason='the native library is not built')
def test_a_head_in_the_file_is_packed_as_a_computed_one(draft_file, tmp_path):
    surroundings, kind = make_surroundings(), FeatureKind()
    packed = []
    for with_head in (False, True):
        path = tmp_path / f'{with_head}.safetensors'
        path.write_bytes(draft_file.read_bytes())
        if with_head:
            add_head(path, surroundings.embedding)
        content = open_draft_file(path, name='d')
        kind.check(content, surroundings)
        views = slot_views(kind.layout(content, surroundings))
        for name, weight in read_draft_weights(path)[1].items():
            views[name].copy_(weight)
        lent = dataclasses.replace(surroundings, embedding=torch.zeros(40, 64)) \
            if with_head else surroundings
        kind.derive(content, views, lent, lambda: False)
        packed.append(views[PACKED])
    torch.testing.assert_close(packed[0], packed[1], rtol=1e-6, atol=0.0, equal_nan=True)


def test_floats_compute_their_own_head(draft_file, monkeypatch):
    monkeypatch.setattr(feature_kind, 'is_packable', lambda _: False)
    surroundings, kind = make_surroundings(), FeatureKind()
    add_head(draft_file, surroundings.embedding)
    content = open_draft_file(draft_file, name='d')
    views = slot_views(kind.layout(content, surroundings))
    _, weights = read_draft_weights(draft_file)
    for name, weight in weights.items():
        views[name].copy_(weight)
    kind.derive(content, views, surroundings, lambda: False)
    exact = surroundings.embedding[3:27] @ weights['out']
    torch.testing.assert_close(views[HEAD], exact)
    assert not torch.equal(weights[HEAD], exact)


def test_a_head_of_another_shape_is_refused(draft_file):
    add_head(draft_file, make_surroundings().embedding)
    content = open_draft_file(draft_file, name='d')
    wrong = dataclasses.replace(content, shapes={**content.shapes, HEAD: (24, 16)})
    with pytest.raises(ModelFormatError, match=r"tensor 'head' is \[24, 16\]"):
        FeatureKind().check(wrong, make_surroundings())


def test_a_target_of_another_width_is_refused(draft_file):
    content = open_draft_file(draft_file, name='d')
    with pytest.raises(ModelFormatError, match='a target with 64 hidden channels; this one has '
                                               '32'):
        FeatureKind().check(content, make_surroundings(hidden_size=32))


def test_a_missing_tensor_is_named(draft_file):
    content = open_draft_file(draft_file, name='d')
    shapes = {name: shape for name, shape in content.shapes.items() if name != 'query'}
    with pytest.raises(ModelFormatError, match="tensor 'query' is missing"):
        FeatureKind().check(dataclasses.replace(content, shapes=shapes), make_surroundings())


def test_no_embedding_is_refused(draft_file):
    content = open_draft_file(draft_file, name='d')
    views = slot_views(FeatureKind().layout(content, make_surroundings()))
    with pytest.raises(ModelFormatError, match="needs its target's embedding"):
        FeatureKind().derive(content, views, make_surroundings(embedding=None), lambda: False)
