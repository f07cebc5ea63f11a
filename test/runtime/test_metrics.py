# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Counting, and rates over the last second."""

from __future__ import annotations

import pytest

from memspec_ros.boundaries import IterationOutcome
from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.runtime.cache_counters import CacheCounters
from memspec_ros.runtime.metrics import Metrics, TimeParts


def outcome(num_drafted=3, num_accepted=2):
    return IterationOutcome(draft='code', num_drafted=num_drafted, num_accepted=num_accepted,
                            num_committed=num_accepted + 1)


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def metrics(clock):
    return Metrics(clock=clock, counters=CacheCounters(num_loads=3, num_evictions=2,
                                                       num_wasted_prefetches=1))


def test_shares_of_nothing_are_0():
    assert TimeParts().shares().desired == 0.0


def test_shares_sum_to_1():
    shares = TimeParts(desired_s=6.0, fallback_s=2.0, prediction_s=1.0, load_wait_s=1.0).shares()
    assert (shares.desired, shares.fallback, shares.prediction, shares.load_wait) \
        == (0.6, 0.2, 0.1, 0.1)


def test_a_goal_is_counted_alone_and_in_the_total(metrics):
    metrics.start_goal()
    metrics.add_iteration(outcome(), 0.01, desired=True)
    metrics.start_goal()
    metrics.add_iteration(outcome(), 0.01, desired=False)
    assert (metrics.goal.num_committed, metrics.total.num_committed) == (3, 6)
    assert metrics.goal.time.fallback_s == 0.01
    assert metrics.total.time.desired_s == 0.01
    assert metrics.total.drafts_used == {'code': 2}
    assert metrics.goal.committed_per_iteration == 3.0
    assert metrics.goal.acceptance == pytest.approx(2 / 3)
    assert metrics.goal.tokens_per_second == pytest.approx(300.0)


def test_start_up_is_apart_from_decode_time(metrics):
    metrics.add_point(prediction_s=0.1, load_wait_s=0.2, hit=True, switched=True, is_first=True)
    metrics.add_point(prediction_s=0.3, load_wait_s=0.4, hit=False, switched=False,
                      is_first=False)
    assert metrics.goal.startup_prediction_s == 0.1
    assert metrics.goal.startup_load_wait_s == 0.2
    assert metrics.goal.time.decode_s == pytest.approx(0.7)
    assert metrics.goal.hit_rate == 0.5
    assert metrics.goal.num_switches == 1


def test_rates_are_over_the_last_second(metrics, clock):
    for _ in range(30):
        clock.advance(0.125)
        metrics.add_iteration(outcome(), 0.125, desired=True)
    clock.advance(0.125)
    metrics.add_iteration(outcome(num_accepted=0), 0.125, desired=True)
    throughput = metrics.throughput(rss_bytes=5, available_bytes=6)
    assert throughput.tokens_per_second == pytest.approx((8 * 3 + 1) / 1.125)
    assert throughput.committed_per_iteration == pytest.approx(25 / 9)
    assert throughput.acceptance == pytest.approx(16 / 27)
    assert throughput.draft_length == pytest.approx(3.0)
    assert (throughput.num_loads, throughput.num_evictions, throughput.num_wasted_prefetches) \
        == (3, 2, 1)
    assert (throughput.rss_bytes, throughput.available_bytes) == (5, 6)


def test_figures_before_anything_was_decoded_are_0(metrics):
    throughput = metrics.throughput()
    assert throughput.tokens_per_second == 0.0
    assert metrics.goal.tokens_per_second == 0.0
    assert metrics.goal.hit_rate == 0.0
