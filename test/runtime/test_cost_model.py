# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Times, and the draft length that follows from them."""

from __future__ import annotations

import pytest

from memspec_ros.boundaries import IterationOutcome
from memspec_ros.runtime.cost_model import CostModel

WIDTH_MS = {1: 11.9, 2: 12.7, 3: 14.4, 4: 15.3, 5: 22.0, 8: 22.6}


def measured(*, step_ms=1.0, max_draft_length=7):
    model = CostModel(max_draft_length=max_draft_length)
    for width, milliseconds in WIDTH_MS.items():
        model.measure_target(width, milliseconds / 1e3)
    model.measure_draft_step('code', step_ms / 1e3)
    return model


def outcome(num_drafted, num_accepted, *, draft='code', step_ms=1.0):
    target_s = WIDTH_MS[num_drafted + 1] / 1e3
    return IterationOutcome(draft=draft, num_drafted=num_drafted, num_accepted=num_accepted,
                            num_committed=num_accepted + 1, target_s=target_s,
                            draft_s=num_drafted * step_ms / 1e3,
                            total_s=target_s + num_drafted * step_ms / 1e3)


def test_times_between_measured_widths_are_interpolated():
    model = measured()
    assert model.target_s(1) == pytest.approx(0.0119)
    assert model.target_s(6) == pytest.approx(0.0222)
    assert model.target_s(16) == pytest.approx(0.0226)


def test_times_are_kept_current():
    model = measured()
    for _ in range(100):
        model.measure_target(1, 0.02)
    assert model.target_s(1) == pytest.approx(0.02, rel=1e-3)


def test_unmeasured_steps_and_catch_ups_have_a_default():
    model = measured()
    assert 0.0 < model.draft_step_s('law') < model.target_s(1)
    assert model.catch_up_s('law') == 2 * model.draft_step_s('law')
    model.measure_catch_up('law', 0.5)
    assert model.catch_up_s('law') == 0.5
    assert model.load_s('law') == 0.0
    model.measure_load('law', 0.25)
    assert model.load_s('law') == 0.25


def test_an_iteration_costs_steps_pass_and_overhead():
    model = measured()
    assert model.iteration_s('code', 3) == pytest.approx(0.003 + 0.0153)
    model.observe(IterationOutcome(draft='code', num_drafted=3, num_accepted=3, num_committed=4,
                                   draft_s=0.003, target_s=0.0153, total_s=0.0193), 3)
    assert model.iteration_s('code', 3) == pytest.approx(0.0193)


def test_a_good_draft_gets_a_long_draft_length_up_to_the_step_in_the_pass():
    """A pass of width 4 is cheap and one of width 5 is not, so 3 or 7 pay, not 4."""
    model = measured()
    for _ in range(50):
        model.observe(outcome(3, 3), 3)
    assert model.draft_length('code') == 7
    for _ in range(50):
        model.observe(outcome(3, 2), 3)
    assert model.draft_length('code') in (2, 3)


def test_a_useless_draft_gets_0_and_another_try_later():
    model = measured(step_ms=3.0)
    for _ in range(30):
        model.observe(outcome(3, 0, step_ms=3.0), 3)
    assert model.draft_length('code') == 0
    num_plain = 0
    while model.draft_length('code') == 0:
        model.observe(outcome(0, 0), 0)
        num_plain += 1
        assert num_plain < 1000
    assert num_plain > 20


def test_the_plain_arm_has_length_0_and_one_token():
    model = measured()
    assert model.draft_length('') == 0
    assert model.pace('') == (1.0, pytest.approx(0.0119))
    assert model.pace('code', 0) == (1.0, pytest.approx(0.0119))


def test_a_fixed_length_is_paced_as_it_is():
    model = measured()
    committed, seconds = model.pace('code', 2)
    assert committed == pytest.approx(1 + 0.6 + 0.36)
    assert seconds == pytest.approx(0.002 + 0.0144)


def test_a_draft_that_often_proposes_nothing_costs_little_then():
    model = measured(step_ms=0.0)
    for _ in range(30):
        model.observe(outcome(0, 0, step_ms=0.0), 3)
    committed, seconds = model.pace('code', 3)
    assert committed < 1.15
    assert seconds < 0.0125


def test_nothing_measured_gives_an_answer_too():
    model = CostModel(max_draft_length=5)
    assert model.draft_length('code') in range(6)
    assert model.pace('') == (1.0, 0.0)


def test_forgetting_keeps_times():
    model = measured()
    for _ in range(30):
        model.observe(outcome(3, 0), 3)
    model.forget_acceptance()
    assert model.acceptance('code').rate == pytest.approx(0.6)
    assert model.target_s(1) == pytest.approx(0.0119)


def test_the_same_observations_give_the_same_answers():
    def lengths():
        model = measured()
        for number in range(200):
            model.observe(outcome(3, number * 7 % 4), 3)
            yield model.draft_length('code'), model.pace('code')

    assert list(lengths()) == list(lengths())


def test_what_a_switch_costs_is_told_from_the_steps():
    model = measured()
    model.measure_draft_step('math', 0.002)
    model.observe(outcome(3, 1), 3)
    after_switch = outcome(3, 1, draft='math', step_ms=2.0)
    model.observe(IterationOutcome(**{**vars(after_switch), 'draft_s': 0.016,
                                      'total_s': after_switch.total_s + 0.010}), 3)
    assert model.draft_step_s('math') == pytest.approx(0.002)
    assert model.catch_up_s('math') == pytest.approx(0.010)
    model.observe(outcome(3, 1, draft='math', step_ms=3.0), 3)
    assert model.draft_step_s('math') > 0.002


def test_one_held_up_pass_moves_the_mean_little_and_a_slower_machine_moves_it_all_the_way():
    model = measured()
    for _ in range(50):
        model.measure_target(1, 0.0119)
    model.measure_target(1, 5.0)
    assert model.target_s(1) < 1.4 * 0.0119
    for _ in range(100):
        model.measure_target(1, 0.1)
    assert model.target_s(1) == pytest.approx(0.1, rel=0.02)


def test_a_slow_moment_slows_every_width_alike():
    """The machine is twice as slow while only width 4 runs: the choice of length stays."""
    model = measured()
    for _ in range(50):
        model.observe(outcome(3, 2), 3)
    length, ratio = model.draft_length('code'), model.target_s(1) / model.target_s(4)
    for _ in range(50):
        slow = outcome(3, 2)
        model.observe(IterationOutcome(**{**vars(slow), 'target_s': 2 * slow.target_s,
                                          'draft_s': 2 * slow.draft_s,
                                          'total_s': 2 * slow.total_s}), 3)
    assert model.target_s(4) == pytest.approx(2 * 0.0153, rel=0.02)
    assert model.target_s(1) / model.target_s(4) == pytest.approx(ratio, rel=0.1)
    assert model.draft_step_s('code') == pytest.approx(0.002, rel=0.1)
    assert model.draft_length('code') == length


def test_one_width_that_got_slower_is_found_out():
    model = measured()
    for _ in range(300):
        model.measure_target(1, 0.0119)
        model.measure_target(4, 0.0306)
    assert model.target_s(1) == pytest.approx(0.0119, rel=0.1)
    assert model.target_s(4) == pytest.approx(0.0306, rel=0.1)


def test_the_first_draft_of_a_goal_reads_the_prompt_unmeasured():
    model = measured()
    model.observe(outcome(3, 1), 3)
    model.start_goal()
    first = outcome(3, 1)
    model.observe(IterationOutcome(**{**vars(first), 'draft_s': 0.050,
                                      'total_s': first.total_s + 0.047}), 3)
    assert model.draft_step_s('code') == pytest.approx(0.001)
    assert model.catch_up_s('code') == pytest.approx(0.002)


def test_reading_the_prompt_is_not_taken_for_the_steps_time():
    costs = CostModel(max_draft_length=3)
    for width in range(1, 5):
        costs.measure_target(width, 0.004 + 0.0003 * width)
    costs.start_goal()
    costs.observe(IterationOutcome(draft='code', num_drafted=3, num_accepted=3, num_committed=4,
                                   draft_s=0.1, target_s=0.005, total_s=0.105), 3)
    assert costs.draft_length('code') > 0
    assert costs.draft_step_s('code') < 0.001
    costs.observe(IterationOutcome(draft='code', num_drafted=3, num_accepted=3, num_committed=4,
                                   draft_s=0.0003, target_s=0.005, total_s=0.0053), 3)
    assert costs.draft_step_s('code') == pytest.approx(0.0001, rel=0.2)
