# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How K shrinks and grows while serving: settings, memory that runs out, limits from outside."""

from __future__ import annotations

import pytest
from draft_caches import NAMES, make_cache, make_resident, plan_for

from memspec_ros.errors import BudgetError
from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.runtime.draft_cache import DraftCache
from memspec_ros.runtime.plan import PoolDraft
from memspec_ros.testing.manual_loader import ManualLoader


def test_out_of_memory_shrinks_the_capacity_and_says_so():
    loader, cache = make_cache(num_slots=3)
    make_resident(loader, cache, 'code')
    cache.update(plan_for('code', 'math', size=2))
    loader.fail('math', 'out of memory', out_of_memory=True)
    cache.poll()
    assert cache.capacity == 2
    assert "loading 'math' ran out of memory" in cache.capacity_reason


def test_the_byte_budget_bounds_beside_the_capacity():
    loader, cache = make_cache(num_slots=3, num_bytes=10, budget_bytes=25)
    cache.update(plan_for('code', 'math', 'law', size=3))
    assert set(loader.in_flight) == {'code', 'math'}


def test_shrinking_evicts_the_lowest_scored_inactive():
    loader, cache = make_cache(num_slots=3)
    make_resident(loader, cache, 'code', 'math', 'law')
    cache.activate('law')
    cache.set_capacity(2)
    assert cache.resident == {'code', 'law'}
    assert cache.capacity == 2


def test_shrinking_waits_for_loads_it_cancels():
    loader, cache = make_cache(loader=ManualLoader(cancels_at_once=False))
    make_resident(loader, cache, 'code')
    cache.activate('code')
    cache.update(plan_for('code', 'math'))
    cache.set_capacity(1)
    assert cache.capacity == 2
    loader.finish('math')
    cache.poll()
    assert cache.capacity == 1
    assert cache.resident == {'code'}


def test_a_capacity_beyond_the_slots_is_refused_and_the_old_one_kept():
    _, cache = make_cache()
    with pytest.raises(BudgetError, match='cache_capacity is 3; the largest that fits is 2'):
        cache.set_capacity(3)
    assert cache.capacity == 2


def test_more_slots_than_drafts_are_never_needed():
    drafts = [PoolDraft(name='code')]
    for num_drafts in (0, 1):
        cache = DraftCache(drafts=drafts[:num_drafts], loader=ManualLoader(),
                           num_slots=num_drafts, clock=VirtualClock())
        cache.set_capacity(2)
        assert cache.capacity == num_drafts
        cache.update(plan_for('code', 'math'))
        assert cache.num_occupied == num_drafts


def test_reset_empties_all_slots():
    loader, cache = make_cache(loader=ManualLoader(cancels_at_once=False))
    make_resident(loader, cache, 'code')
    cache.update(plan_for('code', 'math'))
    cache.reset()
    assert cache.num_occupied == 0
    cache.update(plan_for('law', 'medical'))
    assert set(loader.in_flight.values()) == {0, 1}


def limited_cache(num_slots=3):
    given_back = []
    loader, cache = ManualLoader(), None
    drafts = [PoolDraft(name=name, domain=name, num_bytes=10) for name in NAMES]
    cache = DraftCache(drafts=drafts, loader=loader, num_slots=num_slots, clock=VirtualClock(),
                       give_back=given_back.append)
    return loader, cache, given_back


def test_a_limit_evicts_the_lowest_scored_inactive_and_says_why_until_it_is_lifted():
    loader, cache, _ = limited_cache()
    make_resident(loader, cache, 'code', 'math', 'law')
    cache.activate('law')
    cache.limit_capacity(2, 'memory pressure: 90 MB')
    assert (cache.capacity, cache.resident) == (2, {'code', 'law'})
    residency = cache.residency()
    assert residency.capacity_reason == 'memory pressure: 90 MB'
    reasons = {draft.name: draft.reason for draft in residency.drafts}
    assert reasons['math'] == 'evicted: memory pressure: 90 MB'
    assert reasons['code'] == ''
    cache.set_capacity(3)
    assert cache.capacity == 2
    cache.limit_capacity(None, '')
    assert (cache.capacity, cache.capacity_reason) == (3, '')
    cache.update(plan_for('code', 'math', 'law', size=3))
    assert {draft.name: draft.reason for draft in cache.residency().drafts}['math'] == ''


def test_a_limit_of_nothing_keeps_the_active_draft():
    loader, cache, _ = limited_cache()
    make_resident(loader, cache, 'code', 'math', 'law')
    cache.activate('law')
    cache.limit_capacity(0, 'memory pressure')
    assert (cache.capacity, cache.resident) == (1, {'law'})


def test_slots_out_of_use_are_given_back_once_and_the_others_are_used():
    loader, cache, given_back = limited_cache()
    make_resident(loader, cache, 'code', 'math', 'law')
    cache.activate('code')
    freed = {cache.slot_of('law'), cache.slot_of('math')}
    cache.limit_capacity(1, 'memory pressure')
    assert set(given_back) == freed
    kept = cache.slot_of('code')
    cache.activate('')
    for name in ('medical', 'general', 'math'):
        cache.update(plan_for(name, size=1))
        loader.finish(name)
        cache.poll()
        assert cache.slot_of(name) == kept
    assert len(given_back) == 2
    cache.limit_capacity(None, '')
    cache.update(plan_for('math', 'code', size=2))
    loader.finish('code')
    cache.limit_capacity(1, 'memory pressure')
    assert len(given_back) == 3


def test_a_load_in_flight_is_given_back_when_it_has_ended():
    given_back = []
    loader = ManualLoader(cancels_at_once=False)
    cache = DraftCache(drafts=[PoolDraft(name=name) for name in NAMES], loader=loader,
                       num_slots=2, clock=VirtualClock(), give_back=given_back.append)
    make_resident(loader, cache, 'code')
    cache.activate('code')
    cache.update(plan_for('code', 'math'))
    cache.limit_capacity(1, 'memory pressure')
    assert (cache.capacity, given_back) == (2, [])
    loader.finish('math')
    cache.poll()
    assert cache.capacity == 1
    assert cache.resident == {'code'}
    assert len(given_back) == 1
