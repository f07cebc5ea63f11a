# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The K slots with the drafts over their memory: real files, real drafts, real loader thread."""

import contextlib
import os

import pytest
import torch

from memspec_ros.errors import (
    LoadError,
    ModelFormatError,
    ModelNotFoundError,
    TokenizerMismatchError,
)
from memspec_ros.models.draft_content import open_draft_file
from memspec_ros.models.draft_file import read_draft_weights
from memspec_ros.models.draft_kinds import Surroundings
from memspec_ros.models.draft_set import DraftSet
from memspec_ros.models.draft_slots import DraftSlots
from memspec_ros.models.independent_decoder import independent_config, independent_decoder
from memspec_ros.models.independent_draft import IndependentDraft
from memspec_ros.runtime.loader import ThreadLoader
from memspec_ros.testing.scripted_model import ScriptedContext, ScriptedTarget
from memspec_ros.testing.tiny_draft import tiny_config, write_tiny_draft

HIDDEN = 24
TABLE = torch.randn(64, HIDDEN, generator=torch.Generator().manual_seed(9))
CONTEXT = ScriptedContext(tokens=[5, 9, 33, 2, 60, 11, 7, 1, 40, 3, 3, 17], prompt_length=4,
                          target=ScriptedTarget(end_ids=frozenset()))


def make_surroundings(**changes):
    return Surroundings(**{'form': 'fp32', 'context_tokens': 16, 'vocab_size': 64,
                           'hidden_size': HIDDEN, 'embedding': TABLE, **changes})


def make_set(paths, **changes):
    openers = {path.name: lambda path=path: open_draft_file(path, name=path.name)
               for path in paths}
    return DraftSet(openers, make_surroundings(**changes))


def make_slots(paths, num_slots=2, **changes):
    return DraftSlots(make_set(paths, **changes), num_slots=num_slots,
                      surroundings=make_surroundings(**changes))


def load(slots, name, slot):
    slots.source(name)(slot, should_cancel=lambda: False, throttle=lambda _: None)
    return slots.draft(slot, name)


def expected_proposals(path):
    """What a draft made straight from the file proposes."""
    header, weights = read_draft_weights(path)
    decoder = independent_decoder(independent_config(header.card.architecture), weights,
                                  form='fp32', context_tokens=16, target_embedding=TABLE)
    kv_caches = tuple(decoder.make_kv_cache(context_tokens=16) for _ in range(2))
    draft = IndependentDraft('x', decoder, kv_caches=kv_caches, context_tokens=16,
                             output_token_ids=weights.get('output_token_ids'))
    return draft.propose(CONTEXT, 5)


@pytest.fixture
def paths(tmp_path):
    """Three drafts of different storage, size and parts."""
    write_tiny_draft(tmp_path / 'a', seed=1)
    write_tiny_draft(tmp_path / 'b', seed=2, storage='int8', head_rows=40,
                     config=tiny_config(num_layers=3))
    write_tiny_draft(tmp_path / 'c', seed=3, storage='int4', target_hidden_size=HIDDEN)
    return [tmp_path / name for name in 'abc']


def test_drafts_take_turns_in_the_slots(paths):
    slots = make_slots(paths)
    expected = {path.name: expected_proposals(path) for path in paths}
    assert len({tuple(value) for value in expected.values()}) == 3
    for slot, name in [(0, 'a'), (1, 'b'), (0, 'c'), (0, 'b'), (1, 'c'), (1, 'a'), (0, 'a')]:
        assert load(slots, name, slot).propose(CONTEXT, 5) == expected[name]


def test_a_swap_makes_no_new_draft_and_leaves_the_other_slot_alone(paths):
    slots = make_slots(paths)
    first, other = load(slots, 'a', 0), load(slots, 'b', 1)
    before = other.propose(CONTEXT, 5)
    load(slots, 'c', 0)
    assert other.propose(CONTEXT, 5) == before
    other.reset()
    assert other.propose(CONTEXT, 5) == before
    assert load(slots, 'a', 0) is first


def test_all_slots_have_the_size_of_the_largest(paths):
    drafts, half = make_set(paths), make_set(paths, form='bf16')
    assert drafts.slot_bytes == drafts.weight_bytes('b') > drafts.weight_bytes('c')
    assert make_slots(paths, num_slots=3).num_bytes == 3 * (
        drafts.slot_bytes + drafts.slot_memory_bytes)
    assert half.slot_bytes < 0.6 * drafts.slot_bytes


def test_bf16_runs(paths):
    slots = make_slots(paths, form='bf16', embedding=TABLE.bfloat16())
    assert [len(load(slots, name, 0).propose(CONTEXT, 3)) for name in 'abc'] == [3, 3, 3]


def test_binding_what_is_not_there_is_refused(paths):
    slots = make_slots(paths)
    with pytest.raises(LoadError, match="slot 0 holds nothing, not draft 'a'"):
        slots.draft(0, 'a')
    load(slots, 'a', 0)
    with pytest.raises(LoadError, match="slot 0 holds 'a', not draft 'b'"):
        slots.draft(0, 'b')


def test_a_draft_that_cannot_serve_is_told_and_the_others_serve(paths):
    paths[1].write_bytes(b'short')
    paths.append(paths[0].with_name('gone'))
    reasons = make_set(paths).unavailable
    assert set(reasons) == {'b', 'gone'}
    assert 'b has 5 bytes' in reasons['b']
    assert 'no file' in reasons['gone']
    slots = make_slots(paths)
    assert load(slots, 'a', 0).propose(CONTEXT, 5) == expected_proposals(paths[0])


def test_a_file_that_was_repaired_serves(paths):
    whole = paths[0].read_bytes()
    paths[0].write_bytes(whole[:100])
    slots = make_slots(paths)
    with pytest.raises(ModelFormatError, match='truncated'):
        load(slots, 'a', 0)
    paths[0].write_bytes(whole)
    assert load(slots, 'a', 0).propose(CONTEXT, 5) == expected_proposals(paths[0])


def test_a_file_that_comes_later_serves_if_its_size_was_expected(paths):
    whole = paths[0].read_bytes()
    paths[0].unlink()
    surroundings = make_surroundings()
    openers = {path.name: lambda path=path: open_draft_file(path, name=path.name)
               for path in paths}
    drafts = DraftSet(openers, surroundings, expected_bytes={'a': 10**6})
    assert drafts.slot_bytes == 10**6
    slots = DraftSlots(drafts, num_slots=1, surroundings=surroundings)
    with pytest.raises(ModelNotFoundError, match='no file'):
        load(slots, 'a', 0)
    paths[0].write_bytes(whole)
    assert load(slots, 'a', 0).propose(CONTEXT, 5) == expected_proposals(paths[0])


def test_tokens_are_forgotten_at_a_load_and_not_between(paths):
    slots = make_slots(paths)
    draft = load(slots, 'a', 0)
    draft.catch_up(CONTEXT)
    assert slots.draft(0, 'a').catch_up(CONTEXT) == []
    assert load(slots, 'a', 0) is draft
    assert len(draft.catch_up(CONTEXT)) > 0


def test_a_file_that_was_replaced_serves_with_its_new_weights(paths):
    slots = make_slots(paths)
    before = load(slots, 'a', 0).propose(CONTEXT, 5)
    write_tiny_draft(paths[0], seed=8, storage='int8')
    after = load(slots, 'a', 0).propose(CONTEXT, 5)
    assert after == expected_proposals(paths[0]) != before


def test_headers_are_parsed_again_only_when_a_file_has_changed(paths):
    opened = []

    def open_it():
        opened.append(paths[0])
        return open_draft_file(paths[0], name='a')

    slots = DraftSlots(DraftSet({'a': open_it}, make_surroundings()), num_slots=2,
                       surroundings=make_surroundings())
    for slot in (0, 1, 0):
        load(slots, 'a', slot)
    assert len(opened) == 1
    write_tiny_draft(paths[0], seed=8)
    load(slots, 'a', 1)
    assert len(opened) == 2


def test_a_file_replaced_within_a_tick_of_its_time_serves_at_the_next_load(paths):
    slots = make_slots(paths)
    load(slots, 'a', 0)
    times = paths[0].stat()
    write_tiny_draft(paths[0].with_name('other'), seed=8)
    paths[0].write_bytes(paths[0].with_name('other').read_bytes())
    os.utime(paths[0], ns=(times.st_atime_ns, times.st_mtime_ns))
    assert paths[0].stat().st_size == times.st_size
    with pytest.raises(LoadError, match='another header'):
        load(slots, 'a', 0)
    assert load(slots, 'a', 0).propose(CONTEXT, 5) == expected_proposals(paths[0])


def test_a_failed_load_leaves_the_slot_empty(paths):
    slots = make_slots(paths)
    load(slots, 'a', 0)
    data = bytearray(paths[1].read_bytes())
    data[-3] ^= 1
    paths[1].write_bytes(data)
    with pytest.raises(LoadError, match=r"draft 'b': .*damaged"):
        load(slots, 'b', 0)
    with pytest.raises(LoadError, match='holds nothing'):
        slots.draft(0, 'a')


def test_a_replaced_file_that_outgrew_the_slots_is_refused(paths):
    slots = make_slots(paths[:1])
    write_tiny_draft(paths[0], config=tiny_config(vocab_size=600))
    with pytest.raises(LoadError, match=r"draft 'a' takes \d+ bytes in fp32; a slot has \d+"):
        load(slots, 'a', 0)
    write_tiny_draft(paths[0], config=tiny_config(num_layers=4))
    with pytest.raises(LoadError, match=r"'a' needs \d+ bytes of KV cache; a slot has \d+"):
        load(slots, 'a', 0)


def test_a_vocabulary_map_beyond_the_target_is_refused(paths):
    slots = make_slots(paths, vocab_size=30)
    with pytest.raises(LoadError, match=r'map has tokens 0 to 39; the target has 0 to 29'):
        load(slots, 'b', 0)


def test_a_draft_for_other_tokens_is_refused_at_its_load(tmp_path):
    paths = [tmp_path / 'mine', tmp_path / 'other']
    for path, checksum in zip(paths, ('ab' * 32, 'cd' * 32), strict=True):
        write_tiny_draft(path, tokenizer_checksum=checksum)
    slots = make_slots(paths, tokenizer_checksum='ab' * 32)
    load(slots, 'mine', 0)
    with pytest.raises(TokenizerMismatchError, match=r"draft 'other': .*other was made for tokens "
                       r"of content cdcdcdcdcdcd; the target's have abababababab"):
        load(slots, 'other', 0)


def test_tensors_that_are_not_the_architecture_s_are_told(paths):
    assert make_set(paths, hidden_size=25).unavailable == {
        'c': f"{paths[2]}: tensor 'embedding_projection' is [32, 24]; the architecture needs "
             '[32, 25]'}


def test_the_loader_thread_fills_slots_while_drafts_run(paths):
    slots = make_slots(paths)
    loader = ThreadLoader({path.name: slots.source(path.name) for path in paths})
    expected = {path.name: expected_proposals(path) for path in paths}
    with contextlib.closing(Closing(loader)):
        active = load(slots, 'a', 0)
        for name in 'bcbcbc':
            loader.start(name, 1)
            while not (events := loader.poll()):
                assert active.propose(CONTEXT, 5) == expected['a']
            assert events[0].error == ''
            assert slots.draft(1, name).propose(CONTEXT, 5) == expected[name]


class Closing:
    """Shuts a loader down whatever happens."""

    def __init__(self, loader):
        self.close = loader.shutdown


def test_a_slot_that_was_given_back_serves_after_the_next_load(paths):
    slots = make_slots(paths)
    other = load(slots, 'b', 1)
    load(slots, 'a', 0)
    slots.give_back(0)
    with pytest.raises(LoadError, match='slot 0 holds nothing'):
        slots.draft(0, 'a')
    assert other.propose(CONTEXT, 5) == expected_proposals(paths[1])
    assert load(slots, 'a', 0).propose(CONTEXT, 5) == expected_proposals(paths[0])
