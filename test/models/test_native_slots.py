# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Slots in the native library against PyTorch's, and their promises bit for bit."""

import dataclasses
import random

import pytest
import torch
from packed_views import packed_views

from memspec_ros.errors import ModelError, UnsupportedModelError
from memspec_ros.models import native_library
from memspec_ros.models.feature_draft import FeatureDraft
from memspec_ros.models.feature_native import HEAD, PackedProjections, packed_matrices
from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.models.feature_slots import MAX_SLOTS, MAX_STEPS, FeatureEntries, TorchSlots
from memspec_ros.models.matrices import DenseMatrix
from memspec_ros.models.native_matrix import GrowingStorage, pack
from memspec_ros.models.native_pool import shared_pool
from memspec_ros.models.native_slots import NativeSlots

pytestmark = pytest.mark.skipif(not native_library.has_feature_drafts(),
                                reason='the native library is not built')

VOCAB = 90
CONFIG = FeatureConfig(hidden_size=64, rows=23, width=128, num_heads=2, intermediate=96,
                       window=24)
ROW_TOKENS = torch.arange(7, 53, 2, dtype=torch.int32)


class Scene:
    """One random draft, and the slots of it in each form."""

    def __init__(self, config=CONFIG, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.config = config
        self.weights = {name: torch.randn(shape, generator=generator) * shape[-1] ** -0.5
                        for name, shape in config.shapes().items()}
        for name in ('attention_norm', 'mlp_norm', 'out_norm'):
            self.weights[name] = 1.0 + self.weights[name]
        self.weights[HEAD] = torch.randn(config.rows, config.width, generator=generator)
        self.embedding = torch.randn(VOCAB, config.hidden_size, generator=generator)
        self.matrices = packed_matrices(config, packed_views(config, self.weights))
        self.projections = PackedProjections(self.matrices, shared_pool(1))
        for name, matrix in self.matrices.items():
            self.weights[name] = matrix.values()
        self.outputs = torch.zeros(MAX_SLOTS, config.width)

    def _parts(self):
        capacity = FeatureEntries.capacity(self.config)
        return {'row_tokens': ROW_TOKENS, 'embedding': self.embedding,
                'memory': torch.zeros(2, capacity, self.config.width)}

    def native(self, num_threads=1, **changes):
        return NativeSlots(self.config, self.matrices, self.weights,
                           pool=shared_pool(num_threads), outputs=self.outputs,
                           **{**self._parts(), **changes})

    def torch(self, *, packed):
        return TorchSlots(self.config, self.weights, **self._parts(),
                          project=self.projections if packed else None)


def look_ups(chance, count):
    return [(chance.randrange(VOCAB), chance.randrange(5)) for _ in range(count)]


def walk(slots, length=400, seed=0, read=lambda: None):
    """Feed and step at random, with gaps; tokens that were predicted, and what is read of each.

    A proposed token is the next step's, as in use, but drawn so that a difference stays local.
    """
    chance = random.Random(seed)
    states = torch.randn(length, CONFIG.hidden_size,
                         generator=torch.Generator().manual_seed(seed))
    seen, at = [], 0
    while at < length:
        if chance.random() < 0.03:
            slots.restart()
        count = min(chance.choice([1, 1, 2, 3, 4, 40]), length - at)
        tokens = [chance.randrange(VOCAB) for _ in range(count)]
        wanted = chance.randint(1, count)
        seen += slots.feed(tokens, look_ups(chance, count), states[at:at + count], wanted)
        for _ in range(chance.randrange(4)):
            seen.append(slots.step(chance.randrange(VOCAB), look_ups(chance, 1)[0]))
            read()
        if chance.random() < 0.5:
            slots.rewind()
        at += count
    return seen


@pytest.mark.parametrize(('packed', 'tolerance'), [(True, 0.03), (False, 0.08)])
@pytest.mark.parametrize('seed', range(3))
def test_tokens_and_outputs_are_those_of_pytorch(packed, tolerance, seed):
    scene = Scene(seed=seed)
    reference = scene.torch(packed=packed)
    outputs, expected_outputs = [], []
    seen = walk(scene.native(), seed=seed,
                read=lambda: outputs.append(scene.outputs[0].clone()))
    expected = walk(reference, seed=seed,
                    read=lambda: expected_outputs.append(reference._stepped[1][0]))
    same = [one == other for one, other in zip(seen, expected, strict=True)]
    assert sum(same) >= 0.99 * len(same)
    assert len(set(seen)) > 20
    difference = torch.stack(outputs) - torch.stack(expected_outputs)
    assert difference.abs().max() < tolerance * torch.stack(expected_outputs).abs().max()


def feed_all(scene, slots, widths):
    """Outputs and tokens of slots fed in such stretches, then of three steps."""
    chance = random.Random(1)
    count = sum(widths)
    tokens = [chance.randrange(VOCAB) for _ in range(count)]
    found = look_ups(chance, count)
    states = torch.randn(count, CONFIG.hidden_size, generator=torch.Generator().manual_seed(2))
    outputs, predicted, at = [], [], 0
    for width in widths:
        part = slice(at, at + width)
        predicted += slots.feed(tokens[part], found[part], states[part], width)
        outputs.append(scene.outputs[:width].clone())
        at += width
    for token in (3, 4, 5):
        predicted.append(slots.step(token, (9, 2)))
        outputs.append(scene.outputs[:1].clone())
    return torch.cat(outputs), predicted


@pytest.mark.parametrize('num_threads', [1, 2, 3])
@pytest.mark.parametrize('widths', [[1] * 190, [3, 64, 1, 2, 17, 64, 39], [7] * 27 + [1]])
def test_splits_and_threads_change_no_bit(widths, num_threads):
    scene = Scene()
    expected, expected_tokens = feed_all(scene, scene.native(), [64, 64, 62])
    outputs, tokens = feed_all(scene, scene.native(num_threads), widths)
    assert torch.equal(outputs, expected)
    assert tokens == expected_tokens


def test_slots_that_predict_nothing_are_seen_all_the_same():
    scene = Scene()
    silent, speaking = scene.native(), scene.native()
    states = torch.randn(8, CONFIG.hidden_size)
    silent.feed([1, 2, 3, 4], [(5, 1)] * 4, states[:4], 0)
    speaking.feed([1, 2, 3, 4], [(5, 1)] * 4, states[:4], 4)
    outputs = []
    for slots in (silent, speaking):
        slots.feed([6, 7, 8, 9], [(5, 1)] * 4, states[4:], 1)
        outputs.append(scene.outputs[0].clone())
    assert torch.equal(*outputs)


def test_steps_are_forgotten():
    scene = Scene()
    slots, fresh = scene.native(), scene.native()
    states = torch.randn(4, CONFIG.hidden_size)
    for each in (slots, fresh):
        each.feed([1, 2], [(0, 0)] * 2, states[:2], 1)
    first = [slots.step(8, (0, 0)), slots.step(9, (0, 0))]
    slots.rewind()
    assert [slots.step(8, (0, 0)), slots.step(9, (0, 0))] == first
    slots.feed([3, 4], [(0, 0)] * 2, states[2:], 1)
    output = scene.outputs[0].clone()
    fresh.feed([3, 4], [(0, 0)] * 2, states[2:], 1)
    assert torch.equal(output, scene.outputs[0])


def test_a_looked_up_token_without_a_row_wins_by_its_bonus():
    scene = Scene()
    slots = scene.native()
    states = torch.randn(2, CONFIG.hidden_size)
    scene.weights['copy_bias'][:] = 1000.0
    assert slots.feed([1], [(8, 3)], states[:1], 1) == [8]     # even: no row has it
    assert slots.feed([1], [(9, 3)], states[:1], 1) == [9]
    assert slots.feed([1], [(8, 0)], states[1:], 1) != [8]
    scene.weights['copy_bias'][:] = -1000.0
    assert slots.feed([1], [(9, 3)], states[:1], 1) != [9]


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
def test_a_packed_embedding_serves_as_the_floats_do(dtype):
    scene = Scene()
    scene.embedding = scene.embedding.to(dtype).float()
    packed = pack(DenseMatrix(data=scene.embedding.to(dtype)), GrowingStorage())
    assert walk(scene.native(embedding=packed)) == walk(scene.native())


class Context:
    """The first tokens of a known sequence, with the target's states."""

    end_ids = frozenset()
    first_hidden = 0

    def __init__(self, tokens, states, length, prompt_length=1):
        self.tokens, self.prompt_length = tokens[:length], prompt_length
        self._states = states
        self.target = self

    def hidden_states(self, start, stop):
        return self._states[start:stop]


def contexts(length=260):
    """Tokens in stretches that repeat, longer than window and memory together."""
    chance = random.Random(4)
    phrases = [[chance.randrange(VOCAB) for _ in range(5)] for _ in range(4)]
    tokens = [token for _ in range(length // 5) for token in chance.choice(phrases)]
    states = torch.randn(length, CONFIG.hidden_size, generator=torch.Generator().manual_seed(3))
    return lambda stop: Context(tokens, states, stop)


def test_flags_and_proposals_are_the_same_however_tokens_came():
    scene, context = Scene(), contexts()
    steady, late = (FeatureDraft('d', CONFIG, scene.native()) for _ in range(2))
    flags, proposed = [], {}
    for length in range(2, 260):
        flags += steady.catch_up(context(length))
        proposed[length] = steady.propose(context(length), 4)
    late_flags = []
    for length in (2, 60, 61, 64, 90, 150, 151, 200, 259):
        late_flags += late.catch_up(context(length))
        assert late.propose(context(length), 4) == proposed[length]
    assert late_flags == flags
    assert 0 < sum(flags) < len(flags)


def test_a_draft_switched_in_late_proposes_the_same():
    scene, context = Scene(), contexts()
    steady = FeatureDraft('d', CONFIG, scene.native())
    for length in range(2, 250):
        steady.propose(context(length), 3)
    late = FeatureDraft('d', CONFIG, scene.native())
    assert late.propose(context(255), 6) == steady.propose(context(255), 6)


def test_what_cannot_run_is_refused():
    slots = Scene().native()
    states = torch.randn(MAX_SLOTS + 1, CONFIG.hidden_size)
    with pytest.raises(ModelError, match='slots of a feature-conditioned draft: an argument'):
        slots.step(1, (0, 0))
    with pytest.raises(ModelError, match='out of range'):
        slots.feed([VOCAB], [(0, 0)], states[:1], 1)
    with pytest.raises(ModelError, match='65 slots with states'):
        slots.feed([1] * 65, [(0, 0)] * 65, states, 1)
    with pytest.raises(ModelError, match=r'states \[1, 8\] were given; .* with 64 channels'):
        slots.feed([1], [(0, 0)], states[:1, :8], 1)
    slots.feed([1], [(0, 0)], states[:1], 1)
    for _ in range(MAX_STEPS):
        slots.step(1, (0, 0))
    with pytest.raises(ModelError, match='out of range'):
        slots.step(1, (0, 0))


def test_heads_that_are_no_multiple_of_16_wide_are_refused():
    narrow = dataclasses.replace(CONFIG, num_heads=16)
    with pytest.raises(UnsupportedModelError, match='does not support a draft of'):
        Scene(narrow).native()
