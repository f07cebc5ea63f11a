# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What configure measures."""

from __future__ import annotations

import pytest

from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.runtime.calibration import measure_target
from memspec_ros.runtime.cost_model import CostModel
from memspec_ros.testing.scripted_model import ScriptedTarget


def test_every_width_is_timed_and_the_target_left_empty():
    clock = VirtualClock()
    target = ScriptedTarget(on_extend=lambda width: clock.advance(0.010 + 0.001 * width))
    model = CostModel(max_draft_length=3)
    measure_target(model, target, clock=clock)
    assert [model.target_s(width) for width in (1, 2, 3, 4)] == pytest.approx(
        [0.011, 0.012, 0.013, 0.014])
    assert target.length == 0
    assert max(target.widths[1:]) == 4


def test_what_slows_the_machine_for_a_while_makes_no_width_look_slow():
    clock = VirtualClock()
    num_passes = 0

    def take_time(width):
        nonlocal num_passes
        num_passes += 1
        busy = 3 if 4 <= num_passes <= 9 else 1
        clock.advance(busy * (0.010 + 0.001 * width))

    model = CostModel(max_draft_length=3)
    measure_target(model, ScriptedTarget(on_extend=take_time), clock=clock)
    assert [model.target_s(width) for width in (1, 2, 3, 4)] == pytest.approx(
        [0.011, 0.012, 0.013, 0.014])
