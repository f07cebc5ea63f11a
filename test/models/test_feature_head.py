# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Heads in draft files: the codes that a load would make, and nothing else is touched."""

import dataclasses

import pytest
import torch

from memspec_ros.errors import ModelFormatError
from memspec_ros.models.draft_content import open_draft_file, slot_layout
from memspec_ros.models.draft_file import (
    DraftCard,
    read_draft_header,
    read_draft_weights,
    read_stored_tensors,
    write_draft_file,
)
from memspec_ros.models.draft_slot import DraftSlot
from memspec_ros.models.draft_storage import quantise_int8
from memspec_ros.models.feature_head import HEAD, add_head, head_chunks, write_feature_draft
from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.models.slot_reader import ReadCancelledError, SlotReader

CONFIG = FeatureConfig(hidden_size=48, rows=150, width=64, num_heads=2, intermediate=32,
                       window=16)
TABLE = torch.randn(400, 48, generator=torch.Generator().manual_seed(1))
ROW_TOKENS = torch.arange(3, 303, 2)


def make_weights():
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator)
            for name, shape in CONFIG.shapes().items()}


def make_card(storage='int8', kind='feature'):
    return DraftCard(kind=kind, domain='general', tokenizer_checksum='', storage=storage,
                     architecture=dataclasses.asdict(CONFIG))


@pytest.mark.parametrize('storage', ['int8', 'int4'])
def test_a_written_head_is_that_of_the_stored_weights(tmp_path, storage):
    path = tmp_path / 'd.safetensors'
    write_feature_draft(path, make_card(storage), make_weights(), ROW_TOKENS, TABLE[ROW_TOKENS])
    _, weights = read_draft_weights(path)
    expected = quantise_int8(TABLE[ROW_TOKENS] @ weights['out'], 32)
    stored = read_stored_tensors(path)
    assert torch.equal(stored[HEAD], expected.values)
    assert stored[f'{HEAD}.scale'].shape == (150, 2)
    assert torch.equal(weights[HEAD], expected.dequantise())
    error = (weights[HEAD] - TABLE[ROW_TOKENS] @ weights['out']).abs().max()
    assert 0 < error <= expected.scale.max() / 2


def test_a_slot_reads_the_head(tmp_path):
    path = tmp_path / 'd.safetensors'
    write_feature_draft(path, make_card(), make_weights(), ROW_TOKENS, TABLE[ROW_TOKENS])
    content = open_draft_file(path, name='d')
    layout = slot_layout(content, 'fp32')
    slot = DraftSlot(num_bytes=layout.num_bytes, reader=SlotReader([content]))
    assert slot.read_into(content, layout, should_cancel=lambda: False,
                          throttle=lambda _: None)
    assert torch.equal(slot.views(layout)[HEAD], read_draft_weights(path)[1][HEAD])


def test_adding_gives_the_file_that_would_have_been_written(tmp_path):
    old, new = tmp_path / 'old.safetensors', tmp_path / 'new.safetensors'
    write_draft_file(old, make_card(), make_weights(), ROW_TOKENS)
    stored, header = read_stored_tensors(old), read_draft_header(old)
    expected = write_feature_draft(new, make_card(), make_weights(), ROW_TOKENS,
                                   TABLE[ROW_TOKENS])
    assert add_head(old, TABLE) == expected
    assert add_head(old, TABLE) == expected
    added = read_stored_tensors(old)
    assert added.keys() - stored.keys() == {HEAD, f'{HEAD}.scale'}
    assert all(torch.equal(added[name], tensor) for name, tensor in stored.items())
    assert read_draft_header(old).card.architecture == header.card.architecture


def test_floats_keep_no_head(tmp_path):
    path = tmp_path / 'd.safetensors'
    write_feature_draft(path, make_card('fp16'), make_weights(), ROW_TOKENS, TABLE[ROW_TOKENS])
    assert HEAD not in read_draft_header(path).shapes
    with pytest.raises(ModelFormatError, match='is a feature draft in fp16; only feature drafts '
                                               'in 8 or 4 bits hold'):
        add_head(path, TABLE)


def test_computing_can_be_cancelled():
    out = torch.randn(48, 64)
    chunks = list(head_chunks(ROW_TOKENS, out, TABLE))
    assert [first for first, _ in chunks] == [0, 64, 128]
    torch.testing.assert_close(torch.cat([rows for _, rows in chunks]), TABLE[ROW_TOKENS] @ out)
    answers = iter([False, True])
    computed = head_chunks(ROW_TOKENS, out, TABLE, lambda: next(answers))
    next(computed)
    with pytest.raises(ReadCancelledError):
        next(computed)
