# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The draft cache under operations in any order: its bounds hold at every instant."""

from __future__ import annotations

import random

from draft_caches import NAMES, make_cache, plan_for
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.testing.manual_loader import ManualLoader


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
