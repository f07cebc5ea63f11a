# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Feature-conditioned drafts in slots: what fits, what is refused, what is made at a load."""

import dataclasses

import pytest
import torch

from memspec_ros.errors import ModelFormatError
from memspec_ros.models import feature_kind
from memspec_ros.models.draft_content import open_draft_file
from memspec_ros.models.draft_file import DraftCard, read_draft_weights, write_draft_file
from memspec_ros.models.draft_kinds import Surroundings
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
    kind.derive(views, surroundings)
    expected = surroundings.embedding[3:27] @ weights['out']
    torch.testing.assert_close(views[HEAD], expected)
    memory = torch.zeros(kind.memory_bytes(content, surroundings), dtype=torch.uint8)
    draft = kind.make(content, views, memory, surroundings)
    assert draft.name == 'd'
    assert PACKED not in views or is_native


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
        FeatureKind().derive(views, make_surroundings(embedding=None))
