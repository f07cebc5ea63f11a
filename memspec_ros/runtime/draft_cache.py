# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The draft cache manager: which drafts hold the K slots (Algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from memspec_ros.boundaries import Clock, DraftLoader, LoadEvent
from memspec_ros.errors import LoadError
from memspec_ros.records import DraftState, DraftStatus, Residency
from memspec_ros.runtime.cache_counters import CacheCounters
from memspec_ros.runtime.capacity import Capacity
from memspec_ros.runtime.load_failures import LoadFailures
from memspec_ros.runtime.plan import Plan, PoolDraft

NONE_PROTECTED: frozenset[str] = frozenset()


class DraftCache:
    """K slots and who is in them: G_i, the loads in flight, and the active draft.

    A load in flight holds its slot, so residents and loads together never exceed K nor the byte
    budget. One thread owns it.

    :param drafts: the candidate set D, in the pool's order.
    :param loader: brings a draft into a slot.
    :param num_slots: slots that are allocated; K may move between 1 and this.
    :param clock: times the retries of drafts that failed to load.
    :param budget_bytes: bound on the bytes of residents and loads together; 0 is none.
    :param give_back: told of a slot that K leaves out of use, until it is loaded into again.
    """

    def __init__(self, *, drafts: Sequence[PoolDraft], loader: DraftLoader, num_slots: int,
                 clock: Clock, budget_bytes: int = 0,
                 give_back: Callable[[int], object] = lambda _: None) -> None:
        self._drafts = {draft.name: draft for draft in drafts}
        self._loader = loader
        self._allowed = Capacity(num_slots=num_slots, num_drafts=len(self._drafts))
        self._capacity = self._allowed.allowed
        self._budget_bytes = budget_bytes
        self._give_back = give_back
        self._failures = LoadFailures(clock)
        self._free_slots = list(reversed(range(num_slots)))  # a stack: the same few are used
        self._unused_slots: set[int] = set()
        self._resident: dict[str, int] = {}
        self._loading: dict[str, int] = {}
        self._cancelling: set[str] = set()
        self._unused: set[str] = set()
        self._scores: Mapping[str, float] = {}
        self._working_set: tuple[str, ...] = ()
        self._active = ''
        self._on_load: Callable[[str, float], None] = lambda *_: None
        self.candidates = tuple(self._drafts)
        self._reasons: dict[str, str] = {}
        self.counters = CacheCounters()

    @property
    def capacity(self) -> int:
        """K: residents and loads in flight together never exceed it."""
        return self._capacity

    @property
    def num_slots(self) -> int:
        """Slots that are allocated: the largest K that can be set."""
        return self._allowed.num_slots

    @property
    def capacity_reason(self) -> str:
        """Why K is less than what was asked for; '' when it is not."""
        return self._allowed.reason

    @property
    def resident(self) -> frozenset[str]:
        """G_i."""
        return frozenset(self._resident)

    @property
    def loading(self) -> tuple[str, ...]:
        """Loads in flight that are still wanted, in the order in which they started."""
        return tuple(name for name in self._loading if name not in self._cancelling)

    @property
    def num_occupied(self) -> int:
        """Slots held by residents and by loads in flight, the cancelled ones included."""
        return len(self._resident) + len(self._loading)

    @property
    def num_bytes(self) -> int:
        """Bytes of residents and of loads in flight."""
        return sum(self._drafts[name].num_bytes for name in (*self._resident, *self._loading))

    def is_resident(self, draft: str) -> bool:
        """Whether a draft can run now; those that are not of the pool need no slot."""
        return draft in self._resident or draft not in self._drafts

    def slot_of(self, draft: str) -> int:
        """Return the slot of a resident draft (KeyError when it is not)."""
        return self._resident[draft]

    def victims_for(self, draft: str, *, protected: frozenset[str]) -> list[str] | None:
        """Return whom to evict, lowest score first, so that a draft fits; None when it cannot.

        No draft of the working set or protected one is among them.
        """
        evictable = self._by_score(name for name in self._resident
                                   if name not in self._working_set and name not in protected)
        num_free = self._capacity - self.num_occupied
        for num_victims in range(max(0, 1 - num_free), len(evictable) + 1):
            if self._fits(draft, evictable[:num_victims]):
                return evictable[:num_victims]
        return None

    def check_capacity(self, capacity: int) -> None:
        """Refuse a K that cannot be. Raises BudgetError: more than the allocated slots."""
        self._allowed.check(capacity)

    def residency(self) -> Residency:
        """Return the state of every draft, for the residency topic."""
        resident_bytes = sum(self._drafts[name].num_bytes for name in self._resident)
        return Residency(drafts=tuple(self._status(draft) for draft in self._drafts.values()),
                         cache_capacity=self._capacity, resident_bytes=resident_bytes,
                         capacity_reason=self.capacity_reason,
                         budget_bytes=self._budget_bytes, active_draft=self._active)

    def observe_loads(self, on_load: Callable[[str, float], None]) -> None:
        """Tell ``on_load`` of each draft that was loaded, and the seconds it took."""
        self._on_load = on_load

    def poll(self) -> None:
        """Take in the loads that ended and the retries that are due; never waits."""
        for event in self._loader.poll():
            self._take_in(event)
        if self._failures.retry_due():
            self._find_candidates()

    def update(self, plan: Plan) -> None:
        """Bring the resident set towards the working set without waiting (Algorithm 2).

        The active draft is protected, or the one that the plan names in its place; none is where
        the plan stops decoding for another anyway.
        """
        self.poll()
        self._scores = plan.scores
        wanted = [name for name in plan.working_set if name in self.candidates]
        self._working_set = tuple(wanted[:self._capacity])
        spared = self._active if plan.protected is None else plan.protected
        protected = NONE_PROTECTED if plan.awaited else frozenset((spared,))
        missing = [name for name in self._working_set if not self._prefetch(name, protected)]
        if missing:
            self._cancel_abandoned(len(missing))

    def wait_for(self, draft: str) -> bool:
        """Block until a draft is resident; False when it cannot be had."""
        while not self.is_resident(draft):
            self._prefetch(draft, NONE_PROTECTED)
            if not self._loading or self._failures.is_out(draft) or not self._await_load():
                return False
        return True

    def _await_load(self) -> bool:
        """Wait until a load ends; False when it stands still, and then it keeps its slot."""
        try:
            self._take_in(self._loader.wait())
            return True
        except LoadError as error:
            self._reasons.update(dict.fromkeys(self._loading, str(error)))
            return False

    def activate(self, draft: str) -> None:
        """Make a resident draft (or one that needs no slot) the active one."""
        self._active = draft
        self._unused.discard(draft)

    def set_capacity(self, capacity: int) -> None:
        """Change K; what no longer fits is evicted by ascending score, the active draft last.

        Where loads in flight are in the way they are cancelled, and K shrinks as they end. Raises
        BudgetError as :meth:`check_capacity`; K stays as it was.
        """
        self._allowed.ask(capacity)
        self._settle_capacity()

    def limit_capacity(self, capacity: int | None, reason: str) -> None:
        """Bound K, whatever is asked for, as :meth:`set_capacity` does; None is no bound."""
        self._allowed.limit(capacity, reason)
        self._settle_capacity(reason)

    def reset(self) -> None:
        """Empty the draft cache; loads in flight are cancelled and awaited."""
        for name in self.loading:
            self._cancel(name)
        while self._loading and self._await_load():
            pass
        for name in tuple(self._resident):
            self._evict(name)
        self._active, self._working_set, self._scores = '', (), {}

    def _by_score(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=lambda name: self._scores.get(name, -math.inf))

    def _fits(self, draft: str, victims: Sequence[str]) -> bool:
        freed = sum(self._drafts[name].num_bytes for name in victims)
        return not self._budget_bytes or \
            self.num_bytes - freed + self._drafts[draft].num_bytes <= self._budget_bytes

    def _prefetch(self, draft: str, protected: frozenset[str]) -> bool:
        """Start a load if there is, or can be made, room; tell whether it is here or coming."""
        if draft in self._resident or draft in self._loading:
            return draft not in self._cancelling
        victims = self.victims_for(draft, protected=protected)
        if victims is None or self._failures.is_out(draft):
            return False
        for victim in victims:
            self._evict(victim)
        self._loading[draft] = slot = self._free_slots.pop()
        self._unused_slots.discard(slot)
        self._reasons.pop(draft, None)
        self._loader.start(draft, slot)
        return True

    def _cancel_abandoned(self, num_missing: int) -> None:
        """Cancel loads that the ranking has dropped and whose slots are wanted."""
        abandoned = self._by_score(one for one in self.loading if one not in self._working_set)
        for name in abandoned[:max(0, num_missing - len(self._cancelling))]:
            self._cancel(name)

    def _cancel(self, draft: str) -> None:
        self._cancelling.add(draft)
        self._loader.cancel(draft)

    def _evict(self, draft: str) -> None:
        self._free_slots.append(self._resident.pop(draft))
        self.counters.num_evictions += 1
        self.counters.num_wasted_prefetches += draft in self._unused
        self._unused.discard(draft)
        if draft == self._active:
            self._active = ''

    def _take_in(self, event: LoadEvent) -> None:
        slot = self._loading.pop(event.draft)
        self._cancelling.discard(event.draft)
        if event.cancelled or event.error:
            self._free_slots.append(slot)
            self._note_failure(event)
        else:
            self._resident[event.draft] = slot
            self._unused.add(event.draft)
            self._failures.forget(event.draft)
            self._reasons.pop(event.draft, None)
            self._on_load(event.draft, event.seconds)
            self.counters.num_loads += 1
        if self._capacity != self._allowed.allowed:
            self._settle_capacity()

    def _note_failure(self, event: LoadEvent) -> None:
        if event.cancelled:
            self.counters.num_cancelled_loads += 1
            self.counters.num_wasted_prefetches += 1
            return
        self.counters.num_failed_loads += 1
        self._failures.add(event.draft, event.error)
        self._find_candidates()
        if event.out_of_memory:
            self._allowed.shrink(f"loading '{event.draft}' ran out of memory")

    def _find_candidates(self) -> None:
        self.candidates = tuple(name for name in self._drafts if not self._failures.is_out(name))

    def _settle_capacity(self, reason: str = '') -> None:
        """Make the allowed K true as far as loads in flight let it be."""
        allowed = self._allowed.allowed
        inactive = self._by_score(name for name in self._resident if name != self._active)
        for name in inactive[:max(0, self.num_occupied - allowed)]:
            self._evict(name)
            self._reasons[name] = f'evicted: {reason}' if reason else ''
        surplus = self.num_occupied - allowed - len(self._cancelling)
        for name in self._by_score(self.loading)[:max(0, surplus)]:
            self._cancel(name)
        self._capacity = max(allowed, self.num_occupied)
        for slot in self._free_slots[:self.num_slots - self._capacity]:
            if slot not in self._unused_slots:
                self._unused_slots.add(slot)
                self._give_back(slot)

    def _status(self, draft: PoolDraft) -> DraftStatus:
        return DraftStatus(name=draft.name, domain=draft.domain, num_bytes=draft.num_bytes,
                           state=self._state(draft.name),
                           score=self._scores.get(draft.name, 0.0),
                           in_working_set=draft.name in self._working_set,
                           reason=self._failures.reason(draft.name)
                           or self._reasons.get(draft.name, ''))

    def _state(self, name: str) -> DraftState:
        if name in self._resident:
            return DraftState.ACTIVE if name == self._active else DraftState.RESIDENT
        if name in self._loading:
            return DraftState.LOADING
        return DraftState.UNAVAILABLE if self._failures.is_out(name) else DraftState.ABSENT
