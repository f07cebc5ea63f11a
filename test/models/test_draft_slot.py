# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Slots: a swap is a copy into the same memory, exact in every storage, and fails alone."""

import os

import pytest
import torch
from safetensors.torch import save_file

from memspec_ros.errors import LoadError
from memspec_ros.models.draft_content import Piece, file_part, open_draft_file, slot_layout
from memspec_ros.models.draft_file import DraftCard, read_draft_weights, write_draft_file
from memspec_ros.models.draft_slot import DraftSlot
from memspec_ros.models.draft_storage import FLOAT_DTYPES, STORAGES
from memspec_ros.models.safetensors_header import read_header
from memspec_ros.models.slot_reader import SlotReader


def never():
    return False


def ignore(num_bytes):
    del num_bytes


def write_draft(path, seed=0, storage='fp32', rows=640):
    generator = torch.Generator().manual_seed(seed)
    weights = {'a': torch.randn(rows, 96, generator=generator),
               'norm': torch.randn(96, generator=generator),
               'b': torch.randn(33, 50, generator=generator)}
    card = DraftCard(kind='independent', domain='code', architecture={},
                     tokenizer_checksum='', storage=storage)
    checksum = write_draft_file(path, card, weights, torch.arange(0, rows, 7))
    return open_draft_file(path, name=path.name, checksum=checksum)


class Slot(DraftSlot):
    """A slot that knows which form it is to hold, for shorter tests."""

    def __init__(self, contents, form):
        self.form = form
        num_bytes = max(slot_layout(content, form).num_bytes for content in contents)
        super().__init__(num_bytes=num_bytes, reader=SlotReader(contents))

    def read(self, content, should_cancel=never, throttle=ignore):
        return self.read_into(content, slot_layout(content, self.form),
                              should_cancel=should_cancel, throttle=throttle)

    def views_of(self, content):
        return self.views(slot_layout(content, self.form))


def make_slot(*contents, form='fp32'):
    return Slot(contents, form)


def assert_holds_the_file(slot, content):
    _, expected = read_draft_weights(content.parts[0].path)
    assert slot.held is content
    for name, view in slot.views_of(content).items():
        assert torch.equal(view, expected[name].to(view.dtype)), name


@pytest.mark.parametrize('storage', STORAGES)
@pytest.mark.parametrize('form', list(FLOAT_DTYPES))
def test_what_is_read_is_what_the_file_stands_for(tmp_path, storage, form):
    content = write_draft(tmp_path / 'd', storage=storage)
    slot = make_slot(content, form=form)
    assert slot.read(content)
    assert_holds_the_file(slot, content)


def test_swaps_keep_every_address(tmp_path):
    contents = [write_draft(tmp_path / f'd{index}', index, storage)
                for index, storage in enumerate(('int8', 'fp32', 'int4'))]
    slot = make_slot(*contents)
    pointer = slot.data_pointer
    addresses = {name: view.data_ptr() for name, view in slot.views_of(contents[0]).items()}
    for content in contents * 2:
        slot.read(content)
        assert_holds_the_file(slot, content)
        views = slot.views_of(content)
        assert {name: view.data_ptr() for name, view in views.items()} == addresses
    assert slot.data_pointer == pointer


def test_throttle_is_told_every_byte_after_the_header(tmp_path):
    content = write_draft(tmp_path / 'd', storage='int4')
    told = []
    make_slot(content).read(content, throttle=told.append)
    part = content.parts[0]
    assert sum(told) == part.file_bytes - part.data_start
    assert max(told) <= 2**18


def test_a_cancelled_read_leaves_the_slot_empty_and_usable(tmp_path):
    content = write_draft(tmp_path / 'd')
    slot = make_slot(content)
    slot.read(content)
    asked = []

    def at_the_second_chunk():
        asked.append(1)
        return len(asked) == 2

    assert not slot.read(content, should_cancel=at_the_second_chunk)
    assert slot.held is None
    assert len(asked) == 2
    assert slot.read(content)
    assert_holds_the_file(slot, content)


def test_truncation_while_reading_empties_this_slot_alone(tmp_path):
    first, second = write_draft(tmp_path / 'a', 1), write_draft(tmp_path / 'b', 2)
    slots = [make_slot(first, second), make_slot(first, second)]
    slots[0].read(first)
    path = second.parts[0].path

    def truncate(num_bytes):
        del num_bytes
        os.truncate(path, 4096)

    slots[1].read(first)
    with pytest.raises(LoadError, match=r"draft 'b': .*b ended at byte \d+ while it was read; "
                                        r'\d+ bytes were expected'):
        slots[1].read(second, throttle=truncate)
    assert slots[1].held is None
    assert_holds_the_file(slots[0], first)
    assert slots[1].read(first)


def test_a_flipped_bit_is_found(tmp_path):
    content = write_draft(tmp_path / 'd', storage='int8')
    data = bytearray(content.parts[0].path.read_bytes())
    data[-9] ^= 1
    content.parts[0].path.write_bytes(data)
    slot = make_slot(content)
    with pytest.raises(LoadError, match=r'd is damaged: its bytes have SHA-256 \w+; \w+ was'):
        slot.read(content)
    assert slot.held is None


def test_without_a_checksum_of_the_pool_the_card_s_own_is_used(tmp_path):
    path = write_draft(tmp_path / 'd').parts[0].path
    content = open_draft_file(path, name='d')
    slot = make_slot(content)
    assert slot.read(content)
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    with pytest.raises(LoadError, match='damaged'):
        slot.read(content)


def test_a_file_changed_since_it_was_opened_is_refused(tmp_path):
    content = write_draft(tmp_path / 'd', storage='int8')
    slot = make_slot(content)
    write_draft(tmp_path / 'd', storage='int4')
    with pytest.raises(LoadError, match=r'd has \d+ bytes; it had \d+ when it was opened'):
        slot.read(content)
    write_draft(tmp_path / 'd', seed=5, storage='int8')
    with pytest.raises(LoadError, match='has another header than when it was opened'):
        slot.read(content)


def test_missing_and_unreadable_files_are_named(tmp_path):
    content = write_draft(tmp_path / 'd')
    slot = make_slot(content)
    content.parts[0].path.unlink()
    with pytest.raises(LoadError, match=r'd cannot be read: .*No such file'):
        slot.read(content)


def test_a_read_error_of_the_disk_is_told(tmp_path, monkeypatch):
    content = write_draft(tmp_path / 'd')
    slot = make_slot(content)

    def fail(*_):
        raise OSError(5, 'Input/output error')

    monkeypatch.setattr(os, 'preadv', fail)
    with pytest.raises(LoadError, match=r"draft 'd': .*d cannot be read: .*Input/output error"):
        slot.read(content)


def test_short_reads_are_continued(tmp_path, monkeypatch):
    content = write_draft(tmp_path / 'd', storage='bf16')
    slot = make_slot(content)
    preadv = os.preadv
    monkeypatch.setattr(os, 'preadv', lambda fd, buffers, offset: preadv(
        fd, [buffers[0][:1000]], offset))
    assert slot.read(content)
    assert_holds_the_file(slot, content)


def test_a_draft_that_is_too_large_says_both_sizes(tmp_path):
    small, large = write_draft(tmp_path / 'a', rows=64), write_draft(tmp_path / 'b')
    slot = make_slot(small)
    with pytest.raises(LoadError, match=r"draft 'b' takes \d+ bytes in fp32; a slot has \d+"):
        slot.read(large)


def test_the_kernel_is_told_to_drop_the_pages(tmp_path, monkeypatch):
    content = write_draft(tmp_path / 'd')
    advice = []
    monkeypatch.setattr(os, 'posix_fadvise', lambda *call: advice.append(call[1:]))
    slot = make_slot(content)
    slot.read(content)
    slot.read(content, should_cancel=lambda: True)
    assert advice == [(0, 0, os.POSIX_FADV_DONTNEED)] * 2


def test_bytes_of_no_use_to_the_slot_are_part_of_the_checksum(tmp_path):
    path = tmp_path / 'd'
    content = write_draft(path)
    part = content.parts[0]
    pieces = tuple(piece for piece in part.pieces if piece.fills != 'norm')
    fewer = type(content)(**{**vars(content), 'parts': (
        type(part)(**{**vars(part), 'pieces': pieces}),)})
    slot = make_slot(content)
    assert slot.read(fewer)


def test_pieces_fill_a_fused_tensor_from_their_row_on(tmp_path):
    path = tmp_path / 'hf'
    tensors = {'k': torch.randn(2, 8), 'q': torch.randn(4, 8)}
    save_file(tensors, path)
    content = write_draft(tmp_path / 'd', rows=6)
    header = read_header(path)
    part = file_part(header, (Piece(values=header['k'], fills='qk', first_row=4),
                              Piece(values=header['q'], fills='qk')), '', 0)
    fused = type(content)(**{**vars(content), 'parts': (part,), 'shapes': {'qk': (6, 8)}})
    slot = make_slot(content)
    assert slot.read(fused)
    assert torch.equal(slot.views_of(fused)['qk'], torch.cat((tensors['q'], tensors['k'])))


def test_swaps_take_no_memory(tmp_path):
    contents = [write_draft(tmp_path / f'd{index}', index, 'int4', rows=4096)
                for index in range(2)]
    slot = make_slot(*contents, form='bf16')
    for content in contents:
        slot.read(content)
    before = resident_bytes()
    for content in contents * 20:
        slot.read(content)
    assert resident_bytes() - before < slot.num_bytes


def resident_bytes():
    with open('/proc/self/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')
