# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How a draft's bytes get from the host's buffers into a slot, beside the passes that run.

On CUDA the loader thread copies from pinned memory on a stream of its own. That stream begins
behind what the decode thread has told its stream, so that nothing in flight still reads the slot;
a buffer is filled again only behind the fence of its last copy (Megatron-LM#5715); and a load
ends when the host has waited for the stream, so that the decode thread never has to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

import torch

from memspec_ros.models.pass_graphs import Fence

PINNED_BYTES = 2**20


class Copies(Protocol):
    """What reading into slots needs of a device other than the host."""

    def pinned_bytes(self, num_bytes: int) -> torch.Tensor:
        """Return memory of the host, uint8, that the device copies from by itself."""

    def copying(self) -> contextlib.AbstractContextManager[None]:
        """Let operations go to the copy stream, behind what other streams were told so far."""

    def copy(self, into: torch.Tensor, staged: torch.Tensor) -> None:
        """Begin to copy from pinned memory to the device."""

    def fence(self) -> Fence:
        """Return a fence behind all copies begun so far."""

    def finish(self) -> None:
        """Return when all copies are done."""


class CudaCopies:
    """A copy stream of the current CUDA device."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def pinned_bytes(self, num_bytes: int) -> torch.Tensor:
        """Return pinned memory; taken once, since pinning stalls the device (vLLM#37006)."""
        return torch.empty(num_bytes, dtype=torch.uint8).pin_memory()

    @contextlib.contextmanager
    def copying(self) -> Iterator[None]:
        """Make the copy stream current on this thread."""
        # Passes run on the default stream, whichever thread asks.
        self._stream.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(self._stream):
            yield

    def copy(self, into: torch.Tensor, staged: torch.Tensor) -> None:
        """Copy without waiting."""
        into.copy_(staged, non_blocking=True)

    def fence(self) -> Fence:
        """Record an event on the copy stream."""
        return _StreamFence(self._stream)

    def finish(self) -> None:
        """Wait on the host."""
        self._stream.synchronize()


def copies_to(device: str) -> Copies | None:
    """Return what copies to a device; None for the host, or where there is no such device."""
    return CudaCopies() if device == 'cuda' and torch.cuda.is_available() else None


class _StreamFence:
    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._event = stream.record_event()

    def wait(self) -> None:
        """Wait on the host."""
        self._event.synchronize()


class StagedCopies:
    """Two pinned buffers that take turns: one is filled while the other is copied."""

    def __init__(self, copies: Copies) -> None:
        self.copies = copies
        self._buffers = [copies.pinned_bytes(PINNED_BYTES) for _ in range(2)]
        self._fences: list[Fence | None] = [None, None]
        self._turn = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of the buffers."""
        return sum(buffer.numel() for buffer in self._buffers)

    def next_buffer(self) -> torch.Tensor:
        """Return the buffer to fill, uint8, when its last copy is done."""
        self._turn = 1 - self._turn
        fence = self._fences[self._turn]
        if fence is not None:
            fence.wait()
        return self._buffers[self._turn]

    def send(self, into: torch.Tensor, staged: torch.Tensor) -> None:
        """Begin to copy what was put into the buffer returned last.

        :param staged: a view of it, of the shape and dtype of ``into``.
        """
        self.copies.copy(into, staged)
        self._fences[self._turn] = self.copies.fence()

    def finish(self) -> None:
        """Wait until everything is there."""
        self.copies.finish()
        self._fences = [None, None]
