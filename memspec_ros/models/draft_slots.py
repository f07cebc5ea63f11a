# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The K slots, and each draft over each slot's memory.

Everything is made at configure: slots of the largest draft's size, memory for its KV caches, and
the draft objects, which are views. Serving copies bytes into slots and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from memspec_ros.boundaries import Draft
from memspec_ros.errors import LoadError, ModelFormatError, TokenizerMismatchError
from memspec_ros.models.draft_content import DraftContent
from memspec_ros.models.draft_file import OUTPUT_TOKEN_IDS
from memspec_ros.models.draft_kinds import Surroundings
from memspec_ros.models.draft_set import DraftSet
from memspec_ros.models.draft_slot import DraftSlot
from memspec_ros.models.given_back import give_back


class DraftSlots:
    """K slots for a set of drafts.

    The loader thread reads through :meth:`source`; everything else belongs to the decode thread,
    which looks at a slot only after the loader has said that its load has ended.

    :param num_slots: K.
    :param surroundings: as the set has them, with the target's embedding.
    """

    def __init__(self, drafts: DraftSet, *, num_slots: int, surroundings: Surroundings) -> None:
        self._set = drafts
        self._surroundings = surroundings
        reader, device = drafts.make_reader(), surroundings.device
        self._slots = [DraftSlot(num_bytes=drafts.slot_bytes, reader=reader, device=device)
                       for _ in range(num_slots)]
        self._memory = torch.zeros(num_slots, drafts.slot_memory_bytes, dtype=torch.uint8,
                                   device=device)
        self._contents = dict(drafts.contents)
        self._drafts = {(slot, name): self._make(slot, content)
                        for slot in range(num_slots) for name, content in self._contents.items()}
        self._num_reads = [0] * num_slots
        self._bound = [('', 0)] * num_slots

    @property
    def num_bytes(self) -> int:
        """Bytes of slots and KV caches together."""
        return sum(slot.num_bytes for slot in self._slots) + self._memory.numel()

    def give_back(self, slot: int) -> int:
        """Let the machine have the memory of a slot that nothing is read into or drafts from.

        :returns: bytes; 0 on a GPU.
        """
        return self._slots[slot].give_back() + give_back(self._memory[slot])

    def source(self, name: str) -> Callable[..., None]:
        """Return what reads a draft into a slot: the loader's ``DraftSource``.

        It raises LoadError or ModelError when the draft cannot be had; the slot is empty then.
        """
        def read(slot: int, *, should_cancel: Callable[[], bool],
                 throttle: Callable[[int], None]) -> None:
            self._read(name, slot, should_cancel, throttle)
        return read

    def draft(self, slot: int, name: str) -> Draft:
        """Return the draft that a slot holds; at first after each load it has no tokens.

        :raises LoadError: the slot holds another draft, or none.
        """
        content = self._slots[slot].held
        if content is None or content.name != name:
            held = 'nothing' if content is None else f"'{content.name}'"
            raise LoadError(f"slot {slot} holds {held}, not draft '{name}'")
        if self._bound[slot] != (name, self._num_reads[slot]):
            self._bind(slot, content)
        return self._drafts[slot, name]

    def _bind(self, slot: int, content: DraftContent) -> None:
        name = content.name
        if self._contents.get(name) != content:  # another file than at configure
            self._contents[name] = content
            self._drafts.update({(index, name): self._make(index, content)
                                 for index in range(len(self._slots))})
        self._drafts[slot, name].reset()
        self._bound[slot] = (name, self._num_reads[slot])

    def _read(self, name: str, index: int, should_cancel: Callable[[], bool],
              throttle: Callable[[int], None]) -> None:
        slot = self._slots[index]
        slot.held = None
        self._num_reads[index] += 1
        content = self._set.open(name)
        self._check_tokenizer(content)
        if self._set.memory_bytes(content) > self._memory.shape[1]:
            raise LoadError(f"draft '{name}' needs {self._set.memory_bytes(content)} bytes of KV "
                            f'cache; a slot has {self._memory.shape[1]}')
        layout = self._set.layout(content)
        views = slot.views(layout)

        def complete() -> None:
            self._check_token_ids(content, views)
            self._set.kind(content).derive(content, views, self._surroundings, should_cancel)

        try:
            slot.read_into(content, layout, should_cancel=should_cancel, throttle=throttle,
                           complete=complete)
        except LoadError:
            # It may have been replaced between its opening and now, within one tick of its time.
            self._set.forget(name)
            raise

    def _make(self, slot: int, content: DraftContent) -> Draft:
        views = self._slots[slot].views(self._set.layout(content))
        return self._set.kind(content).make(content, views, self._memory[slot],
                                            self._surroundings)

    def _check_tokenizer(self, content: DraftContent) -> None:
        own, target = content.tokenizer_checksum, self._surroundings.tokenizer_checksum
        if own and target and own != target:
            raise TokenizerMismatchError(
                f"draft '{content.name}': {content.parts[0].path} was made for tokens of content "
                f"{own[:12]}; the target's have {target[:12]}")

    def _check_token_ids(self, content: DraftContent, views: Mapping[str, torch.Tensor]) -> None:
        token_ids = views.get(OUTPUT_TOKEN_IDS)
        if token_ids is None or not token_ids.numel():
            return
        low, high = int(token_ids.min()), int(token_ids.max())
        if low < 0 or high >= self._surroundings.vocab_size:
            raise ModelFormatError(f'{content.parts[0].path}: its vocabulary map has tokens '
                                   f'{low} to {high}; the target has 0 to '
                                   f'{self._surroundings.vocab_size - 1}')
