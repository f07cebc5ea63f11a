# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether swaps stall decoding: how iterations are told apart, and what comes out."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from memspec_ros.bench import swap_stall
from memspec_ros.bench.swap_stall import IterationTimer, SwapEveryInterval, measure_swap_stall
from memspec_ros.errors import ConfigError
from memspec_ros.records import GoalState, Progress

DECODED = Progress(state=GoalState.DECODE)


@pytest.fixture
def loader():
    return SimpleNamespace(is_reading=False)


@pytest.fixture
def timer(loader, monkeypatch):
    moments = itertools.accumulate([0.0, 1.0, 1.0, 3.0, 2.0, 1.0, 9.0, 1.0])
    monkeypatch.setattr(swap_stall, 'time', SimpleNamespace(perf_counter=moments.__next__))
    return IterationTimer(SimpleNamespace(loader=loader))


def test_an_iteration_counts_as_loading_when_the_loader_read_before_or_after(timer, loader):
    timer(Progress(state=GoalState.PREFILL))
    timer(DECODED)
    for reading in (False, False, True, False, False):
        loader.is_reading = reading
        timer(DECODED)
    assert (timer.quiet, timer.loading) == ([1.0, 1.0, 1.0], [3.0, 2.0])
    timer.pause()
    timer(DECODED)
    timer(DECODED)
    stall = timer.result(num_loads=1)
    assert (stall.num_quiet, stall.num_loading, stall.quiet_median_s) == (4, 2, 1.0)
    assert (stall.longest_over_median, stall.slowdown) == (3.0, 2.5)


def test_without_iterations_during_loads_nothing_stalled(timer):
    assert timer.result(0).longest_over_median == 0.0
    timer(DECODED)
    timer(DECODED)
    assert (timer.result(0).longest_over_median, timer.result(0).slowdown) == (0.0, 0.0)


def test_another_draft_is_wanted_at_each_point():
    policy = SwapEveryInterval('a', ['b', 'c'])
    contexts = [SimpleNamespace(point=point, always_resident=('',)) for point in range(3)]
    plans = [policy.plan(context) for context in contexts]
    assert [plan.working_set for plan in plans] == [('a', 'b'), ('a', 'c'), ('a', 'b')]
    assert [plan.awaited for plan in plans] == ['a', '', '']
    assert plans[1].desired == 'a'


def test_two_drafts_are_too_few_to_swap():
    with pytest.raises(ConfigError, match='a pool of 3 drafts at the least; it has 2'):
        measure_swap_stall(SimpleNamespace(pool=('a', 'b')), [])
