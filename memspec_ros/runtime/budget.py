# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The memory sum, made before anything is loaded, and the largest K that would fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memspec_ros.errors import BudgetError
from memspec_ros.runtime.memory import Available

MB = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Bytes that serving takes, each known from headers and settings.

    :param slot_bytes: one slot, the largest draft; ``draft_memory_bytes`` its KV cache.
    :param shared_bytes: what drafts and loader take once, whatever K (staging, shared tables).
    :param num_drafts: drafts of the pool; more slots than drafts are never made.
    :param headroom_bytes: left free for everything else.
    """

    target_weights_bytes: int
    target_kv_bytes: int
    workspace_bytes: int = 0
    slot_bytes: int = 0
    draft_memory_bytes: int = 0
    shared_bytes: int = 0
    num_drafts: int = 0
    predictor_bytes: int = 0
    headroom_bytes: int = 0

    @property
    def fixed_bytes(self) -> int:
        """What does not depend on K."""
        return (self.target_weights_bytes + self.target_kv_bytes + self.workspace_bytes
                + self.shared_bytes + self.predictor_bytes + self.headroom_bytes)


@dataclass(frozen=True, kw_only=True)
class BudgetItem:
    """One line of the sum."""

    name: str
    num_bytes: int


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The sum for one cache capacity K, and what there is.

    :param memory: which memory it is compared with, for messages.
    :param num_slots: slots that K makes, since there are never more than drafts.
    :param largest_capacity: the largest K that fits, at most the number of drafts; 0 when only
        the target fits, -1 when not even that does.
    :param missing_bytes: what lacks for the target alone, if it does.
    """

    items: tuple[BudgetItem, ...]
    available_bytes: int
    memory: str
    cache_capacity: int
    num_slots: int
    largest_capacity: int
    missing_bytes: int = 0
    draft_budget_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """The sum, headroom included."""
        return sum(item.num_bytes for item in self.items)

    @property
    def fits(self) -> bool:
        """Whether this K fits."""
        return self.num_slots <= self.largest_capacity

    def check(self) -> None:
        """Raise when it does not fit.

        :raises BudgetError: with the sum, item by item, and the largest K that fits.
        """
        if not self.fits:
            raise BudgetError(self.describe())

    def describe(self) -> str:
        """Return the sum, a line per item, and the verdict."""
        lines = [(item.name, item.num_bytes) for item in self.items]
        lines += [('sum', self.total_bytes), (f'available ({self.memory})', self.available_bytes)]
        width = max(len(name) for name, _ in lines)
        table = [f'  {name:{width}}  {num_bytes / MB:10.1f} MB' for name, num_bytes in lines]
        verb = 'fits' if self.fits else 'does not fit'
        headline = f'K={self.cache_capacity} {verb} into memory:'
        return '\n'.join([headline, *table, self._verdict()])

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON, in bytes."""
        return {'items': {item.name: item.num_bytes for item in self.items},
                'sum_bytes': self.total_bytes, 'available_bytes': self.available_bytes,
                'memory': self.memory, 'cache_capacity': self.cache_capacity,
                'largest_k': self.largest_capacity, 'fits': self.fits}

    def _verdict(self) -> str:
        if self.largest_capacity < 0:
            return (f'not even the target alone fits: {self.missing_bytes / MB:.1f} MB are '
                    'missing; lower target.context_tokens or runtime.headroom_mb, close other '
                    'programs, or take a smaller model')
        if not self.num_slots:
            return 'there are no drafts to keep in memory'
        limit = f' within runtime.draft_budget_mb {self.draft_budget_bytes / MB:g}' \
            if self.draft_budget_bytes else ''
        if self.largest_capacity == 0:
            return (f'the target fits, but no draft does{limit}: serve without a pool (draft.pool '
                    "''), or with smaller drafts")
        return (f'the largest K that fits{limit} is {self.largest_capacity} '
                '(runtime.cache_capacity)')


def make_budget(needs: Needs, available: Available, *, cache_capacity: int,
                draft_budget_bytes: int = 0) -> Budget:
    """Sum up what a cache capacity takes, and find the largest that fits.

    On a GPU with memory of its own everything must fit there; where CPU and GPU share memory,
    and without a GPU, into the host's.

    :param draft_budget_bytes: bound on the slots' bytes together, 0 is none.
    """
    on_device = available.device_bytes is not None
    there = available.device_bytes if available.device_bytes is not None else available.host_bytes
    slots = min(cache_capacity, needs.num_drafts)
    shares = {'target weights': needs.target_weights_bytes,
              'target KV cache': needs.target_kv_bytes,
              f'{slots} x draft slot': slots * needs.slot_bytes,
              f'{slots} x draft KV cache': slots * needs.draft_memory_bytes,
              'shared by drafts': needs.shared_bytes,
              'predictor': needs.predictor_bytes,
              'workspace': needs.workspace_bytes,
              'headroom': needs.headroom_bytes}
    room = there - needs.fixed_bytes
    return Budget(
        items=tuple(BudgetItem(name=name, num_bytes=num_bytes)
                    for name, num_bytes in shares.items() if num_bytes),
        available_bytes=there,
        memory='stated' if available.stated else 'GPU' if on_device else 'MemAvailable',
        cache_capacity=cache_capacity, num_slots=slots, missing_bytes=max(0, -room),
        largest_capacity=_largest_capacity(needs, room, draft_budget_bytes),
        draft_budget_bytes=draft_budget_bytes)


def _largest_capacity(needs: Needs, room_bytes: int, draft_budget_bytes: int) -> int:
    if room_bytes < 0:
        return -1
    capacity = needs.num_drafts
    per_slot = needs.slot_bytes + needs.draft_memory_bytes
    if per_slot:
        capacity = min(capacity, room_bytes // per_slot)
    if draft_budget_bytes and needs.slot_bytes:
        capacity = min(capacity, draft_budget_bytes // needs.slot_bytes)
    return capacity
