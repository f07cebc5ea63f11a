# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Feature-conditioned drafts in slots: the same proposals as made straight from the weights."""

import dataclasses

import pytest
import torch

from memspec_ros.errors import ModelFormatError
from memspec_ros.models.draft_content import open_draft_file
from memspec_ros.models.draft_file import DraftCard, write_draft_file
from memspec_ros.models.draft_kinds import Surroundings
from memspec_ros.models.draft_set import DraftSet
from memspec_ros.models.draft_slots import DraftSlots
from memspec_ros.models.feature_draft import FeatureDraft, FeatureEntries
from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.testing.scripted_model import ScriptedContext, ScriptedTarget

CONFIG = FeatureConfig(hidden_size=12, rows=24, width=8, num_heads=2, intermediate=16, window=16)
ROW_TOKENS = torch.arange(3, 27, dtype=torch.int32)
TABLE = torch.randn(40, 12, generator=torch.Generator().manual_seed(1))
TARGET = ScriptedTarget(vocab_size=40, hidden_size=12, end_ids=frozenset())
TOKENS = [5, 9, 33, 2, 30, 11, 7, 1, 9, 33, 3, 17]


def make_weights():
    generator = torch.Generator().manual_seed(2)
    return {name: torch.randn(shape, generator=generator) * 0.7
            for name, shape in CONFIG.shapes().items()}


def make_context():
    TARGET.rollback(0)
    TARGET.extend(TOKENS[:-1], 0)
    return ScriptedContext(tokens=list(TOKENS), prompt_length=4, target=TARGET)


def write(path, weights):
    card = DraftCard(kind='feature', domain='code', tokenizer_checksum='',
                     architecture=dataclasses.asdict(CONFIG))
    write_draft_file(path, card, weights, ROW_TOKENS)


def make_set(path, **changes):
    surroundings = Surroundings(**{'form': 'fp32', 'context_tokens': 16, 'vocab_size': 40,
                                   'hidden_size': 12, 'embedding': TABLE, **changes})
    return DraftSet({'d': lambda: open_draft_file(path, name='d')}, surroundings), surroundings


def proposals_from_slot(path, **changes):
    drafts, surroundings = make_set(path, **changes)
    slots = DraftSlots(drafts, num_slots=2, surroundings=surroundings)
    slots.source('d')(1, should_cancel=lambda: False, throttle=lambda _: None)
    return slots.draft(1, 'd').propose(make_context(), 4)


def expected_proposals(weights):
    weights = {**weights, 'head': TABLE[ROW_TOKENS] @ weights['out']}
    memory = torch.zeros(2, FeatureEntries.capacity(CONFIG), CONFIG.width)
    draft = FeatureDraft('d', CONFIG, weights, row_tokens=ROW_TOKENS, embedding=TABLE,
                         memory=memory)
    return draft.propose(make_context(), 4)


def test_the_head_is_made_of_the_target_s_rows(tmp_path):
    weights = make_weights()
    write(tmp_path / 'd', weights)
    assert proposals_from_slot(tmp_path / 'd') == expected_proposals(weights)


def test_another_target_s_draft_is_refused(tmp_path):
    write(tmp_path / 'd', make_weights())
    drafts, _ = make_set(tmp_path / 'd', hidden_size=13)
    assert 'made for a target with 12 hidden channels; this one has 13' in drafts.unavailable['d']


def test_missing_weights_are_told(tmp_path):
    weights = make_weights()
    del weights['query']
    write(tmp_path / 'd', weights)
    drafts, _ = make_set(tmp_path / 'd')
    assert "tensor 'query' is missing; the architecture needs [8, 8]" in drafts.unavailable['d']


def test_without_the_target_s_embedding_none_can_be_made(tmp_path):
    write(tmp_path / 'd', make_weights())
    with pytest.raises(ModelFormatError, match="needs its target's embedding"):
        proposals_from_slot(tmp_path / 'd', embedding=None)
