# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A slot: memory of the largest draft's size, taken once; a swap is a copy into it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from memspec_ros.errors import LoadError, ModelFormatError
from memspec_ros.models.draft_content import DraftContent, SlotLayout
from memspec_ros.models.given_back import give_back
from memspec_ros.models.slot_forms import FormedMatrix
from memspec_ros.models.slot_reader import ReadCancelledError, SlotReader


class DraftSlot:
    """Memory for one draft (one of the K of the paper).

    One thread reads into it at a time. While it is read, and after a failed or cancelled read,
    ``held`` is None and nobody may use its views.

    :param num_bytes: bytes of the largest draft.
    :param reader: shared by all slots of one loader thread.
    """

    def __init__(self, *, num_bytes: int, reader: SlotReader,
                 device: str | torch.device = 'cpu') -> None:
        self.held: DraftContent | None = None
        self._buffer = torch.empty(num_bytes, dtype=torch.uint8, device=device)
        self._data_pointer = self._buffer.data_ptr()
        self._reader = reader

    @property
    def num_bytes(self) -> int:
        """Bytes of the slot."""
        return self._buffer.numel()

    @property
    def data_pointer(self) -> int:
        """Address of the slot's memory, the same for as long as it lives."""
        return self._data_pointer

    def give_back(self) -> int:
        """Let the machine have the slot's memory until the next read; return the bytes.

        Its address stays. Memory of a GPU stays taken: captured graphs hold its addresses.
        """
        self.held = None
        return give_back(self._buffer)

    def views(self, layout: SlotLayout) -> dict[str, torch.Tensor]:
        """Return a draft's tensors as they lie in this slot; the same memory at each call.

        Matrices in a form of their own are their bytes, uint8.

        :raises LoadError: the draft is larger than the slot.
        """
        if layout.num_bytes > self.num_bytes:
            raise LoadError(f"draft '{layout.name}' takes {layout.num_bytes} bytes in "
                            f'{layout.form}; a slot has {self.num_bytes}')
        views = {}
        for name, tensor in layout.tensors.items():
            memory = self._buffer[tensor.offset:tensor.offset + tensor.num_bytes]
            views[name] = memory if tensor.form else \
                memory.view(tensor.dtype).view(tensor.shape)
        return views

    def _destinations(self, layout: SlotLayout) -> dict[str, torch.Tensor | FormedMatrix]:
        places: dict[str, torch.Tensor | FormedMatrix] = {**self.views(layout)}
        for name, memory in self.views(layout).items():
            tensor = layout.tensors[name]
            if tensor.form is not None:
                places[name] = FormedMatrix(form=tensor.form, shape=tensor.shape, memory=memory)
        return places

    def read_into(self, content: DraftContent, layout: SlotLayout, *,
                  should_cancel: Callable[[], bool], throttle: Callable[[int], None],
                  complete: Callable[[], None] = lambda: None) -> bool:
        """Fill the slot with a draft, chunk by chunk; tell whether it is now held.

        :param layout: where its tensors go, in the form that they are to have.
        :param should_cancel: asked before each chunk; the slot is left empty when it says yes.
        :param throttle: told the bytes of each chunk after it was read; may wait.
        :param complete: does what is left to do when all bytes are there; the slot holds the
            draft only if it returns.
        :raises LoadError: the draft does not fit, or a file cannot be read, is truncated, was
            changed since it was opened, or does not have its checksum. The slot is empty then.
        """
        self.held = None
        places = self._destinations(layout)
        try:
            with self._reader.beside_passes():
                self._reader.read(content, places, should_cancel=should_cancel,
                                  throttle=throttle)
                complete()
        except ReadCancelledError:
            return False
        except (LoadError, ModelFormatError) as error:
            raise LoadError(f"draft '{content.name}': {error}") from error
        # Captured graphs and bound drafts hold these addresses (vLLM#48941).
        assert self._buffer.data_ptr() == self._data_pointer
        self.held = content
        return True
