# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Feature-conditioned drafts in slots: what fits, what is refused, what is made at a load."""

import dataclasses

import pytest
import torch

from memspec_ros.errors import LoadError, ModelFormatError
from memspec_ros.models import feature_kind, native_library
from memspec_ros.models.draft_content import open_draft_file
from memspec_ros.models.draft_file import DraftCard, read_draft_weights, write_draft_file
from memspec_ros.models.draft_kinds import Surroundings
from memspec_ros.models.draft_slot import DraftSlot
from memspec_ros.models.feature_head import add_head
from memspec_ros.models.feature_kind import HEAD, FeatureKind
from memspec_ros.models.feature_native import packed_matrices, packed_shapes
from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.models.slot_reader import SlotReader

CONFIG = FeatureConfig(hidden_size=64, rows=24, width=32, num_heads=2, intermediate=32,
                       window=16)


needs_library = pytest.mark.skipif(not native_library.is_available(),
                                   reason='the native library is not built')


@pytest.fixture
def draft_file(tmp_path):
    write_random_draft(tmp_path / 'd.safetensors', 'int8')
    return tmp_path / 'd.safetensors'


def write_random_draft(path, storage):
    generator = torch.Generator().manual_seed(0)
    weights = {name: torch.randn(shape, generator=generator)
               for name, shape in CONFIG.shapes().items()}
    card = DraftCard(kind='feature', domain='general', tokenizer_checksum='',
                     architecture=dataclasses.asdict(CONFIG), storage=storage)
    write_draft_file(path, card, weights, torch.arange(3, 27))


def make_surroundings(**changes):
    embedding = torch.randn(40, 64, generator=torch.Generator().manual_seed(1))
    return Surroundings(**{'form': 'fp32', 'context_tokens': 64, 'vocab_size': 40,
                           'hidden_size': 64, 'embedding': embedding, **changes})


def load(path, surroundings, kind=None):
    """Read a draft file into a slot, as the loader does."""
    kind, content = kind or FeatureKind(), open_draft_file(path, name='d')
    kind.check(content, surroundings)
    layout = kind.layout(content, surroundings)
    slot = DraftSlot(num_bytes=layout.num_bytes, reader=SlotReader([content]))
    views = slot.views(layout)
    slot.read_into(content, layout, should_cancel=lambda: False, throttle=lambda _: None,
                   complete=lambda: kind.derive(content, views, surroundings, lambda: False))
    return content, views


def matrix(name, views):
    return packed_matrices(CONFIG, views)[name].values()


@pytest.fixture
def floats_only(monkeypatch):
    monkeypatch.setattr(feature_kind, 'is_packable', lambda _: False)


@pytest.mark.usefixtures('floats_only')
def test_floats_compute_their_own_head(draft_file):
    surroundings = make_surroundings()
    add_head(draft_file, surroundings.embedding)
    _, views = load(draft_file, surroundings)
    _, weights = read_draft_weights(draft_file)
    exact = surroundings.embedding[3:27] @ weights['out']
    torch.testing.assert_close(views[HEAD], exact)
    assert not torch.equal(weights[HEAD], exact)
    assert all(torch.equal(views[name], weight) for name, weight in weights.items()
               if name != HEAD)


@needs_library
@pytest.mark.parametrize('with_head', [False, True])
def test_packed_matrices_have_the_codes_of_the_file(draft_file, with_head):
    surroundings = make_surroundings()
    if with_head:
        add_head(draft_file, surroundings.embedding)
    content, views = load(draft_file, surroundings)
    _, weights = read_draft_weights(draft_file)
    for name in set(packed_shapes(CONFIG)) & set(weights):
        assert torch.equal(matrix(name, views), weights[name]), name
    assert ('out' in views) is not with_head
    vectors = set(weights) - set(packed_shapes(CONFIG)) - {'out'}
    assert all(torch.equal(views[name], weights[name]) for name in vectors)
    assert sum(view.numel() * view.element_size() for view in views.values()) < \
        content.file_bytes + 4 * weights['out'].numel()


@needs_library
def test_a_head_in_the_file_is_packed_as_a_computed_one(draft_file):
    surroundings = make_surroundings()
    _, computed = load(draft_file, surroundings)
    add_head(draft_file, surroundings.embedding)
    nothing = dataclasses.replace(surroundings, embedding=torch.zeros(40, 64))
    _, read = load(draft_file, nothing)
    # Rounded once more, and the scales of what is rounded now have the precision of float16.
    step = matrix(HEAD, computed).abs().max() / 127
    assert (matrix(HEAD, computed) - matrix(HEAD, read)).abs().max() < step


@needs_library
@pytest.mark.parametrize('storage', ['fp32', 'fp16', 'int4'])
def test_a_file_in_another_form_is_rounded_at_its_load(tmp_path, storage):
    path = tmp_path / 'f.safetensors'
    write_random_draft(path, storage)
    _, views = load(path, make_surroundings())
    _, weights = read_draft_weights(path)
    step = weights['key'].abs().amax(1, keepdim=True) / 127
    assert ((matrix('key', views) - weights['key']).abs() <= 0.51 * step).all()


@pytest.mark.parametrize('is_native', [True, False])
def test_a_loaded_draft_is_made_and_named(draft_file, monkeypatch, is_native):
    if not is_native:
        monkeypatch.setattr(feature_kind, 'is_packable', lambda _: False)
    kind, surroundings = FeatureKind(), make_surroundings()
    content, views = load(draft_file, surroundings)
    memory = torch.zeros(kind.memory_bytes(content, surroundings), dtype=torch.uint8)
    assert kind.make(content, views, memory, surroundings).name == 'd'


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
    with pytest.raises(LoadError, match="needs its target's embedding"):
        load(draft_file, make_surroundings(embedding=None))
