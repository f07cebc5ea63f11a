# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The target's last hidden states of recent positions, for drafts and the predictor."""

from __future__ import annotations

import torch

from memspec_ros.errors import ModelError

MIN_POSITIONS = 512


class HiddenRing:
    """Keeps the states of the last :data:`MIN_POSITIONS` positions at least.

    The buffer is allocated once and twice as long, so that any stretch of recent positions is
    one contiguous view; when it is full, the newer half moves to the front.

    ``first`` is the oldest position kept and ``stop`` the one behind the newest.
    """

    def __init__(self, *, context_tokens: int, hidden_size: int, dtype: torch.dtype,
                 device: str | torch.device = 'cpu') -> None:
        self._kept = min(context_tokens, MIN_POSITIONS)
        self._rows = torch.zeros(min(context_tokens, 2 * MIN_POSITIONS), hidden_size,
                                 dtype=dtype, device=device)
        self.first = 0
        self.stop = 0

    @property
    def num_bytes(self) -> int:
        """Bytes allocated."""
        return self._rows.numel() * self._rows.element_size()

    def append(self, states: torch.Tensor) -> None:
        """Add the states of the positions from ``stop`` on: [width, hidden_size]."""
        capacity = self._rows.shape[0]
        if states.shape[0] > capacity:
            self.first = self.stop = self.stop + states.shape[0] - capacity
            states = states[-capacity:]
        num_rows = self.stop - self.first
        if num_rows + states.shape[0] > capacity:
            num_rows = self._shift(min(self._kept, capacity - states.shape[0], num_rows))
        self._rows[num_rows:num_rows + states.shape[0]] = states
        self.stop += states.shape[0]

    def rollback(self, length: int) -> None:
        """Forget the states from position ``length`` on."""
        self.stop = min(self.stop, length)
        self.first = min(self.first, self.stop)

    def view(self, start: int, stop: int) -> torch.Tensor:
        """Return the states of positions ``start`` to ``stop - 1``, a view.

        :raises ModelError: some of them are not kept, with the range that is.
        """
        if not self.first <= start <= stop <= self.stop:
            raise ModelError(f'hidden states of positions {start} to {stop} were asked for; '
                             f'{self.first} to {self.stop} are kept')
        return self._rows[start - self.first:stop - self.first]

    def _shift(self, num_rows: int) -> int:
        """Move the newest ``num_rows`` rows to the front."""
        old = self.stop - self.first
        self._rows[:num_rows] = self._rows[old - num_rows:old].clone()
        self.first = self.stop - num_rows
        return num_rows
