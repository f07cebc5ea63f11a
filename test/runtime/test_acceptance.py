# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Acceptance by depth, with forgetting."""

from __future__ import annotations

import pytest

from memspec_ros.boundaries import IterationOutcome
from memspec_ros.records import FinishReason
from memspec_ros.runtime.acceptance import PRIOR_RATE, AcceptanceEstimate


def outcome(num_drafted, num_accepted, finished=None):
    return IterationOutcome(draft='code', num_drafted=num_drafted, num_accepted=num_accepted,
                            num_committed=num_accepted + 1, finished=finished)


def test_it_starts_from_its_prior():
    estimate = AcceptanceEstimate(4)
    assert estimate.rate == pytest.approx(PRIOR_RATE)
    assert estimate.expected_accepted(2) == pytest.approx([0.0, 0.6, 0.6 + 0.36])


def test_full_acceptance_raises_every_depth_that_was_reached():
    estimate = AcceptanceEstimate(4)
    for _ in range(50):
        estimate.observe(outcome(2, 2), 2)
    assert estimate.expected_accepted(2)[2] > 1.9


def test_a_rejection_says_nothing_about_deeper_proposals():
    """First proposals always right, second ones always wrong."""
    estimate = AcceptanceEstimate(4)
    for _ in range(50):
        estimate.observe(outcome(3, 1), 3)
    accepted = estimate.expected_accepted(3)
    assert accepted[1] > 0.95
    assert accepted[2] - accepted[1] < 0.1


def test_what_an_end_cut_off_is_no_rejection():
    estimate = AcceptanceEstimate(4)
    estimate.observe(outcome(3, 0, FinishReason.STOP), 3)
    assert estimate.rate == pytest.approx(PRIOR_RATE)


def test_proposing_nothing_is_counted_apart():
    estimate = AcceptanceEstimate(4)
    for _ in range(20):
        estimate.observe(outcome(0, 0), 3)
    assert estimate.proposing < 0.1
    assert estimate.rate == pytest.approx(PRIOR_RATE)
    estimate.observe(outcome(0, 0), 0)
    assert estimate.proposing == pytest.approx(1 / 21)


def test_flags_of_a_catch_up_are_first_proposals():
    estimate = AcceptanceEstimate(4)
    estimate.observe_flags([True] * 8 + [False] * 2)
    assert estimate.rate == pytest.approx((8 + 2 * PRIOR_RATE) / 12)


def test_evidence_fades_back_to_the_prior():
    estimate = AcceptanceEstimate(4)
    for _ in range(20):
        estimate.observe(outcome(1, 0), 1)
    bad = estimate.rate
    assert bad < 0.1
    estimate.fade_to(50)
    assert bad < estimate.rate < PRIOR_RATE
    estimate.fade_to(1000)
    assert estimate.rate == pytest.approx(PRIOR_RATE, abs=1e-3)


def test_a_draft_starts_from_what_the_pool_has_shown_at_every_depth():
    pool = AcceptanceEstimate(3)
    for _ in range(60):
        pool.observe(outcome(3, 1), 3)
    other = AcceptanceEstimate(3, pool)
    assert other.expected_accepted(3) == pytest.approx(pool.expected_accepted(3), abs=0.01)
    other.tilt = 0.1
    assert other.rate == pytest.approx(min(0.98, pool.rate + 0.1))
    other.tilt = -0.5
    assert other.rate == pytest.approx(pool.rate - 0.5)


def test_much_evidence_of_its_own_counts_more_than_the_pool():
    pool = AcceptanceEstimate(3)
    pool.observe_flags([True] * 100)
    own = AcceptanceEstimate(3, pool)
    own.observe_flags([False] * 20)
    assert own.rate > 0.6
    own.observe_flags([False] * 400)
    assert own.rate < 0.15


def test_what_was_asked_before_changes_nothing():
    """The shared rates are kept for all who lean on them, as long as the evidence is the same."""
    def after(events, *, asking):
        shared = AcceptanceEstimate(4)
        own = AcceptanceEstimate(4, shared)
        for event in events:
            if asking:
                own.expected_accepted(4)
            event(shared)
        return own.expected_accepted(4)

    events = [lambda it: it.observe(outcome(4, 3), 4), lambda it: it.observe(outcome(4, 1), 4),
              lambda it: it.observe_flags([True, False]), lambda it: it.fade_to(40),
              lambda it: setattr(it, 'prior', 0.3)]
    for count in range(1, len(events) + 1):
        assert after(events[:count], asking=True) == after(events[:count], asking=False)
