# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Reading a draft through pinned buffers: the order of copies and waits, and the bytes."""

import dataclasses
import math

import pytest
import torch

from memspec_ros.errors import LoadError
from memspec_ros.models import copy_stream
from memspec_ros.models.copy_stream import StagedCopies, copies_to
from memspec_ros.models.draft_content import open_draft_file, slot_layout
from memspec_ros.models.draft_file import DraftCard, read_draft_weights, write_draft_file
from memspec_ros.models.draft_slot import DraftSlot
from memspec_ros.models.independent_decoder import independent_shapes
from memspec_ros.models.slot_reader import SlotReader
from memspec_ros.testing.random_checkpoint import tiny_config
from memspec_ros.testing.recording_device import RecordingDevice

STAGED_BYTES = 4096

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a CUDA device')


@pytest.fixture
def draft(tmp_path):
    config = tiny_config()
    generator = torch.Generator().manual_seed(0)
    weights = {name: torch.randn(shape, generator=generator)
               for name, shape in independent_shapes(config).items()}
    card = DraftCard(kind='independent', domain='x', architecture=dataclasses.asdict(config),
                     tokenizer_checksum='', storage='bf16')
    write_draft_file(tmp_path / 'd', card, weights)
    return open_draft_file(tmp_path / 'd', name='d'), tmp_path / 'd'


def read_into(content, copies, device='cpu', should_cancel=lambda: False, complete=lambda: None):
    layout = slot_layout(content, 'bf16')
    slot = DraftSlot(num_bytes=layout.num_bytes, reader=SlotReader([content], copies),
                     device=device)
    held = slot.read_into(content, layout, should_cancel=should_cancel,
                          throttle=lambda _: None, complete=complete)
    return held, slot.views(layout)


def test_a_draft_comes_whole_and_in_order(draft, monkeypatch):
    monkeypatch.setattr(copy_stream, 'PINNED_BYTES', STAGED_BYTES)
    monkeypatch.setattr('memspec_ros.models.slot_reader.PINNED_BYTES', STAGED_BYTES)
    content, path = draft
    device = RecordingDevice()
    log = device.log
    held, views = read_into(content, device, complete=lambda: log.append(('complete',)))
    assert held
    for name, weight in read_draft_weights(path)[1].items():
        assert torch.equal(views[name].float(), weight), name
    assert log[0] == ('begin',)
    assert log[-3:] == [('complete',), ('finish',), ('end',)]
    copied = [entry[1] for entry in log if entry[0] == 'copy']
    assert sum(copied) == sum(2 * math.prod(shape) for shape in content.shapes.values())
    assert max(copied) == STAGED_BYTES


def test_a_buffer_is_filled_again_only_behind_its_last_copy(draft, monkeypatch):
    monkeypatch.setattr(copy_stream, 'PINNED_BYTES', STAGED_BYTES)
    monkeypatch.setattr('memspec_ros.models.slot_reader.PINNED_BYTES', STAGED_BYTES)
    device = RecordingDevice()
    read_into(draft[0], device)
    steps = [entry for entry in device.log if entry[0] in ('copy', 'fence', 'wait')]
    # Two buffers: the first copies wait for nothing, the n-th for the fence of the (n-2)-th.
    fences = 0
    for index, (kind, value) in enumerate(steps):
        if kind == 'copy':
            waited = steps[index - 1] if index else ('none', 0)
            assert waited == (('wait', fences - 1) if fences >= 2 else waited)
            assert steps[index + 1] == ('fence', fences + 1)
        if kind == 'fence':
            fences = value
    assert fences > 20


def test_after_a_cancelled_read_nothing_is_in_flight(draft):
    device = RecordingDevice()
    answers = iter([False] * 3 + [True] * 99)
    held, _ = read_into(draft[0], device, should_cancel=lambda: next(answers))
    assert not held
    assert device.log[-2:] == [('finish',), ('end',)]


def test_after_a_failed_read_nothing_is_in_flight(draft):
    content, path = draft
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    device = RecordingDevice()
    with pytest.raises(LoadError, match='is damaged'):
        read_into(content, device)
    assert device.log[-2:] == [('finish',), ('end',)]


def test_the_host_needs_no_copies():
    assert copies_to('cpu') is None
    assert StagedCopies(RecordingDevice()).num_bytes == 2 * copy_stream.PINNED_BYTES


@needs_cuda
def test_on_cuda_a_draft_comes_whole(draft):
    content, path = draft
    held, views = read_into(content, copies_to('cuda'), device='cuda')
    assert held
    for name, weight in read_draft_weights(path)[1].items():
        assert torch.equal(views[name].float().cpu(), weight), name
