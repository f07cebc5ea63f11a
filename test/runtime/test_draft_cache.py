# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Algorithm 2: K is never exceeded, the active draft is safe, failures are retried."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memspec_ros.errors import BudgetError, LoadError
from memspec_ros.records import DraftState
from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.runtime.draft_cache import DraftCache
from memspec_ros.runtime.plan import Plan, PoolDraft
from memspec_ros.testing.manual_loader import ManualLoader

NAMES = ('general', 'code', 'math', 'law', 'medical')


def make_cache(*, num_slots=2, loader=None, clock=None, num_bytes=10, budget_bytes=0):
    loader = loader or ManualLoader()
    drafts = [PoolDraft(name=name, domain=name, num_bytes=num_bytes) for name in NAMES]
    return loader, DraftCache(drafts=drafts, loader=loader, num_slots=num_slots,
                              clock=clock or VirtualClock(), budget_bytes=budget_bytes)


def plan_for(*ranked, size=2, awaited=''):
    scores = {name: 1.0 - 0.1 * place for place, name in enumerate(ranked)}
    scores.update({name: 0.0 for name in NAMES if name not in scores})
    return Plan(ranking=(*ranked, ''), scores=scores, working_set=ranked[:size], awaited=awaited)


def make_resident(loader, cache, *names):
    cache.update(plan_for(*names, size=len(names)))
    for name in names:
        loader.finish(name)
    cache.poll()
    assert cache.resident == set(names)


def states(cache):
    return {status.name: status.state for status in cache.residency().drafts}


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


class CacheMachine(RuleBasedStateMachine):
    """Random plans, loads that end, fail or linger, and changes of K."""

    def __init__(self):
        super().__init__()
        self.clock = VirtualClock()
        self.loader = ManualLoader(cancels_at_once=False)
        _, self.cache = make_cache(num_slots=4, loader=self.loader, clock=self.clock,
                                   budget_bytes=35)

    @rule(ranked=st.permutations(NAMES), size=st.integers(0, 5), wait=st.booleans())
    def update(self, ranked, size, wait):
        active = self.cache.residency().active_draft
        self.cache.update(plan_for(*ranked, size=size, awaited=ranked[0] if wait else ''))
        assert wait or not active or self.cache.is_resident(active)

    @rule(draft=st.sampled_from(NAMES))
    def wait_for(self, draft):
        assert self.cache.wait_for(draft) == self.cache.is_resident(draft)

    @rule(draft=st.sampled_from(NAMES), fails=st.booleans(), out_of_memory=st.booleans())
    def end_load(self, draft, fails, out_of_memory):
        if draft in self.loader.in_flight:
            if fails:
                self.loader.fail(draft, 'broken', out_of_memory=out_of_memory)
            else:
                self.loader.finish(draft)

    @rule(draft=st.sampled_from(('', *NAMES)))
    def activate(self, draft):
        if self.cache.is_resident(draft):
            self.cache.activate(draft)

    @rule(capacity=st.integers(1, 4))
    def set_capacity(self, capacity):
        self.cache.set_capacity(capacity)

    @rule(seconds=st.floats(0.0, 100.0))
    def let_time_pass(self, seconds):
        self.clock.advance(seconds)
        self.cache.poll()

    @rule()
    def reset(self):
        self.cache.reset()

    @invariant()
    def slots_and_bytes_suffice(self):
        assert self.cache.num_occupied <= self.cache.capacity <= 4
        assert self.cache.num_bytes <= 35
        slots = [self.cache.slot_of(name) for name in self.cache.resident]
        slots += list(self.loader.in_flight.values())
        assert len(set(slots)) == len(slots)


def operate(machine, rng, ranked):
    """Do one random operation."""
    rng.choice((
        lambda: machine.update(ranked, rng.randrange(6), rng.random() < 0.2),
        lambda: machine.end_load(ranked[0], rng.random() < 0.3, rng.random() < 0.2),
        lambda: machine.activate(ranked[0]),
        lambda: machine.set_capacity(rng.randrange(1, 5)),
        lambda: machine.let_time_pass(rng.random()),
        lambda: machine.wait_for(ranked[0]) if rng.random() < 0.1 else None,
    ))()


def test_ten_thousand_random_operations_keep_the_bounds():
    rng = random.Random(0)
    machine = CacheMachine()
    for _ in range(10_000):
        operate(machine, rng, rng.sample(NAMES, len(NAMES)))
        machine.slots_and_bytes_suffice()
    counters = machine.cache.counters
    assert min(counters.num_loads, counters.num_failed_loads, counters.num_cancelled_loads,
               counters.num_evictions) > 50


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=25, stateful_step_count=60, deadline=None,
                                     suppress_health_check=list(HealthCheck))


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
