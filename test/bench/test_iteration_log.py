# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What iterations took, part by part, and how loads slowed them."""

from __future__ import annotations

import pytest

from memspec_ros.bench.iteration_log import IterationLog, Stalls, stalls_of
from memspec_ros.bench.timings import mean, sum_of_timings
from memspec_ros.boundaries import IterationOutcome
from memspec_ros.runtime.cache_counters import CacheCounters


def outcome(*, draft='code', num_drafted=3, target_s=0.010, draft_s=0.006):
    return IterationOutcome(draft=draft, num_drafted=num_drafted, num_accepted=1,
                            num_committed=2, target_s=target_s, draft_s=draft_s)


class Loading:
    """Says whether a load is under way."""

    def __init__(self):
        self.now = False

    def __call__(self):
        return self.now


@pytest.fixture
def loading():
    return Loading()


@pytest.fixture
def log(loading):
    made = IterationLog(clock=lambda: 0.0, counters=CacheCounters(), is_loading=loading)
    made.start_goal()
    made.add_point(prediction_s=0.0, load_wait_s=0.0, hit=True, switched=False, is_first=True)
    return made


def test_the_parts_of_iterations_are_kept_apart(log):
    log.add_iteration(outcome(draft_s=0.030), 0.041, desired=True)
    log.add_iteration(outcome(), 0.017, desired=True)
    log.add_iteration(outcome(num_drafted=0, draft_s=0.0), 0.011, desired=True)
    timings = log.timings
    assert mean(timings.target, '4') == pytest.approx(0.010)
    assert timings.target['1'][0] == 1
    assert mean(timings.steps, 'code') == pytest.approx(0.002)
    assert timings.switches['code'] == pytest.approx([1, 0.030, 3])
    assert mean(timings.overhead, 'all') == pytest.approx(0.001)
    assert log.goal.num_iterations == 3


def test_loads_that_decoding_waited_for_are_left_out(log):
    log.add_load('code', 0.02)
    log.add_iteration(outcome(), 0.017, desired=True)
    log.add_load('law', 0.03)
    assert log.timings.loads == {'law': [1.0, 0.03]}
    log.start_goal()
    log.add_load('math', 0.02)
    assert log.timings.loads == {}


def test_an_iteration_during_which_a_load_ended_counts_as_loading(log, loading):
    log.add_iteration(outcome(), 0.017, desired=True)
    loading.now = True
    log.add_iteration(outcome(target_s=0.020), 0.027, desired=True)
    loading.now = False
    log.add_iteration(outcome(target_s=0.020), 0.027, desired=True)
    log.add_iteration(outcome(), 0.017, desired=True)
    assert log.timings.target_loading['4'] == pytest.approx([2, 0.040])
    assert log.timings.target['4'] == pytest.approx([2, 0.020])
    assert log.stalls() == Stalls(median_s=0.017, worst_s=0.027, num_loading=2, num_slow=2)


def test_a_switch_is_no_stall(log, loading):
    loading.now = True
    log.add_iteration(outcome(draft_s=0.5), 0.6, desired=True)
    loading.now = False
    log.add_point(prediction_s=0.0, load_wait_s=0.0, hit=True, switched=False, is_first=False)
    log.add_iteration(outcome(), 0.017, desired=True)
    assert log.stalls().num_loading == 0


def test_a_goal_starts_anew(log):
    log.add_iteration(outcome(), 0.017, desired=True)
    log.start_goal()
    assert log.timings.target == {}
    assert log.stalls() == Stalls()
    assert log.total.num_iterations == 1


def test_sums_of_goals(log):
    log.add_iteration(outcome(), 0.017, desired=True)
    both = sum_of_timings([log.timings, log.timings])
    assert both.target['4'] == pytest.approx([2, 0.020])
    assert log.timings.target['4'] == pytest.approx([1, 0.010])
    assert mean(both.target, '9', otherwise=7.0) == 7.0


def test_loads_without_quiet_iterations_tell_nothing():
    assert stalls_of([], [1.0]) == Stalls()
    assert stalls_of([1.0, 3.0, 2.0], []) == Stalls(median_s=2.0)
