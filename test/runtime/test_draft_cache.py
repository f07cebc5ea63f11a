# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Algorithm 2: K is never exceeded, the active draft is safe, failures are retried."""

from __future__ import annotations

from dataclasses import replace

from draft_caches import NAMES, make_cache, make_resident, plan_for, states

from memspec_ros.errors import LoadError
from memspec_ros.records import DraftState
from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.runtime.draft_cache import DraftCache
from memspec_ros.runtime.plan import Plan, PoolDraft
from memspec_ros.testing.manual_loader import ManualLoader


def test_loads_in_flight_hold_slots():
    loader, cache = make_cache()
    cache.update(plan_for('code', 'math', 'law', size=3))
    assert loader.started == ['code', 'math']
    assert cache.num_occupied == 2
    assert not cache.resident


def test_a_loaded_draft_is_resident_after_a_poll():
    loader, cache = make_cache()
    cache.update(plan_for('code', 'math'))
    loader.finish('code')
    assert not cache.is_resident('code')
    cache.poll()
    assert cache.is_resident('code')
    assert states(cache)['math'] is DraftState.LOADING


def test_the_lowest_scored_outside_the_working_set_is_evicted():
    loader, cache = make_cache(num_slots=3)
    make_resident(loader, cache, 'code', 'math', 'law')
    cache.activate('code')
    plan = Plan(ranking=('medical',), working_set=('medical',),
                scores={'medical': 1.0, 'code': 0.1, 'math': 0.3, 'law': 0.2})
    cache.update(plan)
    assert cache.resident == {'code', 'math'}
    assert cache.counters.num_evictions == 1


def test_the_active_draft_is_never_evicted():
    loader, cache = make_cache(num_slots=1)
    make_resident(loader, cache, 'code')
    cache.activate('code')
    cache.update(plan_for('math', size=1))
    assert cache.resident == {'code'}
    assert loader.started == ['code']


def test_the_active_draft_goes_when_decoding_waits_for_another():
    loader, cache = make_cache(num_slots=1)
    make_resident(loader, cache, 'code')
    cache.activate('code')
    cache.update(plan_for('math', size=1, awaited='math'))
    assert cache.wait_for('math')
    assert cache.resident == {'math'}


def test_a_plan_may_protect_the_draft_that_runs_next_in_place_of_the_active_one():
    loader, cache = make_cache()
    make_resident(loader, cache, 'code', 'math')
    cache.activate('code')
    cache.update(replace(plan_for('law', 'math'), protected='math'))
    assert loader.started[2:] == ['law']
    assert cache.resident == {'math'}


def test_a_draft_of_the_working_set_makes_no_room_for_another_of_it():
    loader, cache = make_cache()
    make_resident(loader, cache, 'code', 'math')
    cache.activate('code')
    cache.update(plan_for('law', 'math'))
    assert cache.resident == {'code', 'math'}
    assert loader.started == ['code', 'math']


def test_no_draft_is_evicted_in_vain():
    """With the other slot loading there is a victim; with both protected there is none."""
    loader, cache = make_cache()
    make_resident(loader, cache, 'code', 'math')
    cache.activate('code')
    cache.update(plan_for('law', 'medical'))
    assert loader.started[2:] == ['law']
    assert cache.resident == {'code'}


def test_an_abandoned_load_is_cancelled_when_its_slot_is_wanted():
    loader, cache = make_cache(loader=ManualLoader(cancels_at_once=False))
    make_resident(loader, cache, 'code')
    cache.activate('code')
    cache.update(plan_for('law', size=1))
    cache.update(plan_for('medical', size=1))
    assert states(cache)['law'] is DraftState.LOADING
    assert cache.num_occupied == 2
    loader.finish('law')
    cache.update(plan_for('medical', size=1))
    assert states(cache)['law'] is DraftState.ABSENT
    assert states(cache)['medical'] is DraftState.LOADING
    assert cache.counters.num_cancelled_loads == 1
    assert cache.counters.num_wasted_prefetches == 1


def test_an_abandoned_load_goes_on_while_nobody_wants_its_slot():
    loader, cache = make_cache()
    cache.update(plan_for('code', 'math'))
    loader.finish('code')
    cache.update(plan_for('code', size=1))
    assert cache.loading == ('math',)


def test_a_draft_evicted_without_having_run_is_a_wasted_prefetch():
    loader, cache = make_cache()
    make_resident(loader, cache, 'code', 'math')
    cache.activate('code')
    cache.update(plan_for('law', size=1))
    assert cache.counters.num_wasted_prefetches == 1
    loader.finish('law')
    cache.poll()
    cache.activate('law')
    cache.update(plan_for('medical', size=1))
    assert cache.counters.num_wasted_prefetches == 1


def test_a_failed_draft_is_unavailable_with_its_reason_and_retried_with_back_off():
    clock = VirtualClock()
    loader, cache = make_cache(clock=clock)
    for delay_s in (1.0, 2.0, 4.0):
        cache.update(plan_for('code'))
        loader.fail('code', 'code.safetensors: checksum differs')
        cache.poll()
        status = cache.residency().drafts[1]
        assert status.state is DraftState.UNAVAILABLE
        assert status.reason == 'code.safetensors: checksum differs'
        assert 'code' not in cache.candidates
        clock.advance(delay_s - 0.01)
        cache.update(plan_for('code'))
        assert 'code' not in loader.in_flight
        clock.advance(0.01)
        cache.poll()
        assert 'code' in cache.candidates
    cache.update(plan_for('code'))
    loader.finish('code')
    cache.poll()
    assert cache.residency().drafts[1].reason == ''


def test_waiting_for_a_draft_that_fails_gives_up():
    loader, cache = make_cache()
    cache.update(plan_for('code', 'math', awaited='code'))
    loader.fail('code', 'no such file')
    assert not cache.wait_for('code')
    assert cache.loading == ('math',)


def test_waiting_takes_other_loads_in():
    _, cache = make_cache()
    cache.update(plan_for('code', 'math'))
    assert cache.wait_for('math')
    assert cache.resident == {'code', 'math'}


def test_the_working_set_skips_unavailable_drafts():
    loader, cache = make_cache()
    cache.update(plan_for('code', size=1))
    loader.fail('code', 'gone')
    cache.update(plan_for('code', 'math', 'law', size=3))
    assert set(loader.in_flight) == {'math', 'law'}


def test_residency_names_bytes_scores_and_capacity():
    loader, cache = make_cache(budget_bytes=100)
    make_resident(loader, cache, 'code', 'math')
    cache.activate('code')
    residency = cache.residency()
    assert residency.resident_bytes == 20
    assert residency.budget_bytes == 100
    assert residency.active_draft == 'code'
    assert residency.cache_capacity == 2
    code = residency.drafts[1]
    assert (code.state, code.score, code.in_working_set) == (DraftState.ACTIVE, 1.0, True)


class StandingLoader(ManualLoader):
    """Loads that stand still while told so."""

    stands_still = True

    def wait(self):
        if self.stands_still:
            raise LoadError('stalled: nothing was read for 6 s')
        return super().wait()


def test_a_load_that_stands_still_is_not_waited_for_and_keeps_its_slot():
    loader = StandingLoader(cancels_at_once=False)
    cache = DraftCache(drafts=[PoolDraft(name=name) for name in NAMES], loader=loader,
                       num_slots=1, clock=VirtualClock())
    assert not cache.wait_for('code')
    code = next(draft for draft in cache.residency().drafts if draft.name == 'code')
    assert (code.state, code.reason) == (DraftState.LOADING, 'stalled: nothing was read for 6 s')
    assert not cache.wait_for('math')
    cache.reset()
    assert cache.num_occupied == 1
    loader.stands_still = False
    assert cache.wait_for('math')
    assert cache.resident == {'math'}
