# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The K slots, the drafts that may come into them, and each draft over each slot's memory.

Everything is made at configure: slots of the largest draft's size, memory for its KV caches, and
the draft objects, which are views. Serving copies bytes into slots and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from memspec_ros.boundaries import Draft
from memspec_ros.errors import LoadError, ModelError, ModelFormatError
from memspec_ros.models.draft_content import ALIGNMENT_BYTES, DraftContent, SlotLayout
from memspec_ros.models.draft_file import OUTPUT_TOKEN_IDS
from memspec_ros.models.draft_kinds import KINDS, DraftKind, Surroundings
from memspec_ros.models.draft_slot import DraftSlot
from memspec_ros.models.slot_reader import SlotReader

OpenContent = Callable[[], DraftContent]
"""Describes a draft from its files' headers; raises ModelError when it cannot serve."""


class DraftSlots:
    """K slots for the drafts of a pool.

    :param openers: how each draft is described; called now, and again at each load, so that a
        file that was repaired meanwhile serves.
    :param num_slots: K.

    ``unavailable`` says of each draft that cannot serve now why that is so.
    """

    def __init__(self, openers: Mapping[str, OpenContent], *, num_slots: int,
                 surroundings: Surroundings) -> None:
        self._openers = openers
        self._surroundings = surroundings
        self.unavailable: dict[str, str] = {}
        self._contents = {name: content for name in openers
                          if (content := self._open_or_note(name)) is not None}
        reader = SlotReader(self._contents.values())
        slot_bytes = max((self.slot_bytes(name) for name in self._contents), default=0)
        memory_bytes = max((self.memory_bytes(name) for name in self._contents), default=0)
        self._slots = [DraftSlot(num_bytes=slot_bytes, reader=reader,
                                 device=surroundings.device) for _ in range(num_slots)]
        self._memory = torch.zeros(num_slots, -(-memory_bytes // ALIGNMENT_BYTES)
                                   * ALIGNMENT_BYTES, dtype=torch.uint8,
                                   device=surroundings.device)
        self._drafts = {(slot, name): self._make(slot, content)
                        for slot in range(num_slots) for name, content in self._contents.items()}

    @property
    def num_bytes(self) -> int:
        """Bytes of slots and KV caches together."""
        return sum(slot.num_bytes for slot in self._slots) + self._memory.numel()

    def slot_bytes(self, name: str) -> int:
        """Bytes that one draft's weights take in a slot; 0 for one that is unavailable."""
        content = self._contents.get(name)
        return 0 if content is None else self._layout(content).num_bytes

    def memory_bytes(self, name: str) -> int:
        """Bytes that one draft takes beside its weights; 0 for one that is unavailable."""
        content = self._contents.get(name)
        return 0 if content is None else _kind(content).memory_bytes(content, self._surroundings)

    def source(self, name: str) -> Callable[..., None]:
        """Return what reads a draft into a slot: the loader's ``DraftSource``.

        It raises LoadError or ModelError when the draft cannot be had; the slot is empty then.
        """
        def read(slot: int, *, should_cancel: Callable[[], bool],
                 throttle: Callable[[int], None]) -> None:
            self._read(name, slot, should_cancel, throttle)
        return read

    def bind(self, slot: int, name: str) -> Draft:
        """Return the draft that a slot holds, with all tokens forgotten.

        :raises LoadError: the slot holds another draft, or none.
        """
        content = self._slots[slot].held
        if content is None or content.name != name:
            held = 'nothing' if content is None else f"'{content.name}'"
            raise LoadError(f"slot {slot} holds {held}, not draft '{name}'")
        if self._contents.get(name) != content:  # another file than at configure
            self._contents[name] = content
            self._drafts.update({(index, name): self._make(index, content)
                                 for index in range(len(self._slots))})
        draft = self._drafts[slot, name]
        draft.reset()
        return draft

    def _read(self, name: str, slot: int, should_cancel: Callable[[], bool],
              throttle: Callable[[int], None]) -> None:
        self._slots[slot].held = None
        content = self._open(name)
        kind, held = _kind(content), self._slots[slot]
        layout = self._layout(content)
        views = held.views(layout)
        if kind.memory_bytes(content, self._surroundings) > self._memory.shape[1]:
            raise LoadError(f"draft '{name}' needs a larger KV cache than any draft had when the "
                            'slots were made')

        def complete() -> None:
            self._check_token_ids(content, views)
            kind.derive(views, self._surroundings)

        held.read_into(content, layout, should_cancel=should_cancel, throttle=throttle,
                       complete=complete)

    def _open(self, name: str) -> DraftContent:
        content = self._openers[name]()
        _kind(content).check(content, self._surroundings)
        return content

    def _open_or_note(self, name: str) -> DraftContent | None:
        try:
            return self._open(name)
        except ModelError as error:
            self.unavailable[name] = str(error)
            return None

    def _layout(self, content: DraftContent) -> SlotLayout:
        return _kind(content).layout(content, self._surroundings)

    def _make(self, slot: int, content: DraftContent) -> Draft:
        views = self._slots[slot].views(self._layout(content))
        return _kind(content).make(content, views, self._memory[slot], self._surroundings)

    def _check_token_ids(self, content: DraftContent, views: Mapping[str, torch.Tensor]) -> None:
        token_ids = views.get(OUTPUT_TOKEN_IDS)
        if token_ids is None or not token_ids.numel():
            return
        low, high = int(token_ids.min()), int(token_ids.max())
        if low < 0 or high >= self._surroundings.vocab_size:
            raise ModelFormatError(f'{content.parts[0].path}: its vocabulary map has tokens '
                                   f'{low} to {high}; the target has 0 to '
                                   f'{self._surroundings.vocab_size - 1}')


def _kind(content: DraftContent) -> DraftKind:
    try:
        return KINDS[content.kind]
    except KeyError:
        raise ModelFormatError(f"draft '{content.name}' is of kind '{content.kind}'; known are "
                               f'{", ".join(KINDS)}') from None
