# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Streams, events and graphs that run on the CPU and write down what they were told, in order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch


class RecordingDevice:
    """Stands for a CUDA device where graphs are captured and drafts are copied.

    :param capture_error: what capture raises, for the ``num_captures``-th graph and all later.

    ``log`` lists what happened: ``('capture', n)``, ``('replay', n)``, ``('fence', n)``,
    ``('wait', n)``, ``('copy', num_bytes)``, ``('begin',)``, ``('end',)`` and ``('finish',)``.
    """

    def __init__(self, *, capture_error: RuntimeError | None = None,
                 num_captures: int = 0) -> None:
        self.log: list[tuple[str | int, ...]] = []
        self._error = capture_error
        self._num_captures = num_captures
        self._graphs = 0
        self._fences = 0

    def pinned(self, num_elements: int) -> torch.Tensor:
        """Return int64 memory of the host."""
        return torch.zeros(num_elements, dtype=torch.int64)

    def pinned_bytes(self, num_bytes: int) -> torch.Tensor:
        """Return memory of the host, uint8."""
        return torch.zeros(num_bytes, dtype=torch.uint8)

    def capture(self, run: Callable[[], None]) -> RecordingGraph:
        """Return a graph that runs ``run`` at each replay."""
        if self._error is not None and self._graphs >= self._num_captures:
            raise self._error
        self._graphs += 1
        self.log.append(('capture', self._graphs))
        return RecordingGraph(self.log, self._graphs, run)

    def fence(self) -> RecordingFence:
        """Return a fence behind what was logged so far."""
        self._fences += 1
        self.log.append(('fence', self._fences))
        return RecordingFence(self.log, self._fences)

    @contextlib.contextmanager
    def copying(self) -> Iterator[None]:
        """Log the beginning and the end of work on the copy stream."""
        self.log.append(('begin',))
        try:
            yield
        finally:
            self.log.append(('end',))

    def copy(self, into: torch.Tensor, staged: torch.Tensor) -> None:
        """Copy at once."""
        self.log.append(('copy', staged.numel() * staged.element_size()))
        into.copy_(staged)

    def finish(self) -> None:
        """Log that the host waited for the copy stream."""
        self.log.append(('finish',))


class RecordingGraph:
    """A pass that is run anew at each replay."""

    def __init__(self, log: list[tuple[str | int, ...]], number: int,
                 run: Callable[[], None]) -> None:
        self._log = log
        self._number = number
        self._run = run

    def replay(self) -> None:
        """Run it."""
        self._log.append(('replay', self._number))
        self._run()


class RecordingFence:
    """A point in the log."""

    def __init__(self, log: list[tuple[str | int, ...]], number: int) -> None:
        self._log = log
        self._number = number

    def wait(self) -> None:
        """Log the wait."""
        self._log.append(('wait', self._number))
