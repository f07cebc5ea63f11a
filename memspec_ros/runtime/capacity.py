# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""K, the drafts that may be in memory at once: what is asked for, and what memory lets be."""

from __future__ import annotations

from memspec_ros.errors import BudgetError


class Capacity:
    """How many of the allocated slots may be used.

    Three have a say: the settings, loads that ran out of memory, and the watch over the machine's
    memory, whose limit comes and goes. The smallest counts.

    :param num_slots: slots that are allocated.
    :param num_drafts: K beyond their number is as good as it.
    """

    def __init__(self, *, num_slots: int, num_drafts: int) -> None:
        self.num_slots = num_slots
        self._num_drafts = num_drafts
        self._wanted = min(num_slots, num_drafts)
        self._failure = ''
        self.limit(None, '')

    @property
    def allowed(self) -> int:
        """K as it should be now."""
        return min(self._wanted, self._limit)

    @property
    def reason(self) -> str:
        """Why K is less than what was asked for; '' when it is not."""
        return self._pressure if self._limit < self._wanted else self._failure

    def check(self, capacity: int) -> None:
        """Refuse a K that cannot be; more than there are drafts is as good as one for each.

        :raises BudgetError: more than the slots that are allocated.
        """
        if capacity < 1 or min(capacity, self._num_drafts) > self.num_slots:
            raise BudgetError(f'cache_capacity is {capacity}; the largest that fits is '
                              f'{self.num_slots}, the slots that are allocated')

    def ask(self, capacity: int) -> None:
        """Take what the settings say. Raises as :meth:`check`."""
        self.check(capacity)
        self._wanted = min(capacity, self._num_drafts)
        self._failure = ''

    def limit(self, capacity: int | None, reason: str) -> None:
        """Take what the watch over memory says; None is no limit."""
        unlimited = max(self.num_slots, self._num_drafts)
        self._limit = unlimited if capacity is None else max(1, capacity)
        self._pressure = reason

    def shrink(self, why: str) -> None:
        """Make K one less, at least 1, for as long as the settings stay as they are."""
        if self._wanted > 1:
            self._wanted -= 1
            self._failure = f'K shrank to {self._wanted}: {why}'
