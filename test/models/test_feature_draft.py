# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A feature-conditioned draft proposes what its teacher-forced table says, anywhere."""

import dataclasses
import random

import pytest
import torch

from memspec_ros.errors import ModelFormatError
from memspec_ros.models.feature_draft import FeatureDraft
from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.models.feature_slots import FeatureEntries, TorchSlots
from memspec_ros.training.corpus_file import Conversation
from memspec_ros.training.feature_unroll import unroll
from memspec_ros.training.slots import TargetTables, make_batch, make_sequence

HIDDEN, VOCAB, ROWS, STEPS = 12, 40, 24, 4
CONFIG = FeatureConfig(hidden_size=HIDDEN, rows=ROWS, width=8, num_heads=2, intermediate=16,
                       window=16)


@dataclasses.dataclass
class StatefulTarget:
    """Has hidden states of a known sequence; nothing else of a target is asked for."""

    states: torch.Tensor
    end_ids: frozenset = frozenset()
    first_hidden: int = 0
    vocab_size: int = VOCAB

    def hidden_states(self, start, stop):
        assert self.first_hidden <= start
        return self.states[start:stop]


@dataclasses.dataclass
class Context:
    """The first tokens of a known sequence."""

    tokens: list
    target: StatefulTarget
    prompt_length: int = 3


@dataclasses.dataclass
class Scene:
    """A draft with weights from a seed, a sequence, and what the table says about it."""

    draft: FeatureDraft
    tokens: list
    target: StatefulTarget
    proposals: dict

    def propose(self, length, count=STEPS):
        return list(self.draft.propose(Context(self.tokens[:length], self.target), count))


def make_draft(weights, tables):
    weights = {**weights, 'head': tables.rows @ weights['out']}
    memory = torch.zeros(2, FeatureEntries.capacity(CONFIG), CONFIG.width)
    slots = TorchSlots(CONFIG, weights, row_tokens=tables.row_tokens,
                       embedding=tables.embedding, memory=memory)
    return FeatureDraft('general', CONFIG, slots)


def make_scene(seed=0, length=120):
    """Tokens repeat in stretches, so that the look-up matches, and mispredicts, often."""
    generator = torch.Generator().manual_seed(seed)
    chance = random.Random(seed)
    weights = {name: torch.randn(shape, generator=generator) * 0.7
               for name, shape in CONFIG.shapes().items()}
    weights['copy_bias'] += 2.0
    embedding = torch.randn(VOCAB, HIDDEN, generator=generator)
    tables = TargetTables.make(embedding, embedding, torch.arange(2, 2 + ROWS))
    phrases = [[chance.randrange(VOCAB) for _ in range(5)] for _ in range(4)]
    tokens = [token for _ in range(length // 5) for token in chance.choice(phrases)]
    states = torch.randn(len(tokens), HIDDEN, generator=generator)
    return Scene(draft=make_draft(weights, tables), tokens=tokens,
                 target=StatefulTarget(states=states),
                 proposals=table_proposals(weights, tables, tokens, states))


def table_proposals(weights, tables, tokens, states):
    """Per context length, the proposals of the first steps that the true tokens confirm."""
    item = Conversation(id='', domain='general', prompt_ids=tuple(tokens[:3]),
                        output_ids=tuple(tokens[3:]), states=states[:-1])
    sequence = make_sequence(item, tables, num_soft=0)
    batch = make_batch([sequence], tables, [torch.ones(len(sequence), dtype=torch.bool)])
    steps = unroll(weights, CONFIG, batch, tables.rows @ weights['out'], tables.row_tokens,
                   STEPS)
    proposals = {}
    for number, step in enumerate(steps):
        for slot, token in zip(step.slots.tolist(), step.proposed.tolist(), strict=True):
            # Slot s of the sequence holds token s + 1: the context has s + 2 tokens at step 1.
            proposals.setdefault(slot + 2 - number, []).append(token)
    return proposals


@pytest.mark.parametrize('seed', range(4))
def test_proposes_what_the_table_says_at_every_position(seed):
    scene = make_scene(seed)
    for length in range(4, len(scene.tokens)):
        expected = scene.proposals[length]
        assert scene.propose(length)[:len(expected)] == expected


def test_some_chains_of_the_table_are_long():
    lengths = [len(chain) for seed in range(4) for chain in make_scene(seed).proposals.values()]
    assert max(lengths) >= 3


@pytest.mark.parametrize('start', [20, 75, 119])
def test_a_draft_switched_in_late_proposes_the_same(start):
    always, late = make_scene(1), make_scene(1)
    for length in range(4, start):
        always.propose(length)
    for length in range(start, len(late.tokens), 3):
        assert late.propose(length) == always.propose(length)


def test_full_acceptance_leaves_no_gap():
    scene = make_scene(2)
    reference = make_scene(2)
    length = 10
    while length < 100:
        scene.propose(length)
        length += 5
    assert scene.propose(length) == reference.propose(length)


def test_another_goal_starts_anew():
    scene, fresh = make_scene(3), make_scene(3)
    scene.propose(60)
    fresh_tokens = scene.tokens[::-1]
    scene.tokens = fresh.tokens = fresh_tokens
    assert scene.propose(40) == fresh.propose(40)


def test_an_end_token_only_ends_drafting():
    scene = make_scene(0)
    proposed = scene.propose(30)
    other = make_scene(0)
    other.target.end_ids = frozenset({proposed[1]})
    expected = proposed[:1] if proposed[0] != proposed[1] else []
    assert other.propose(30) == expected


def test_flags_tell_what_it_would_have_proposed():
    scene = make_scene(1)
    scene.draft.catch_up(Context(scene.tokens[:20], scene.target))
    flags = scene.draft.catch_up(Context(scene.tokens[:40], scene.target))
    # The flag of position p is about the context of p tokens.
    assert list(flags) == [scene.proposals[p][0] == scene.tokens[p] for p in range(20, 40)]


def test_flags_of_tokens_fed_to_propose_are_kept_until_asked_for():
    scene = make_scene(1)
    scene.draft.catch_up(Context(scene.tokens[:20], scene.target))
    scene.propose(25)
    flags = scene.draft.catch_up(Context(scene.tokens[:25], scene.target))
    assert len(flags) == 5


def test_an_unknown_setting_is_named():
    with pytest.raises(ModelFormatError, match="no setting 'widht'; did you mean 'width'"):
        FeatureConfig.from_architecture({'hidden_size': 8, 'rows': 4, 'widht': 8})


def test_heads_must_divide_the_width():
    with pytest.raises(ModelFormatError, match=r'width 10 .* 4 heads'):
        FeatureConfig(hidden_size=8, rows=4, width=10)
