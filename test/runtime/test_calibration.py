# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What configure measures."""

from __future__ import annotations

import pytest

from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.runtime.calibration import measure_drafts, measure_target
from memspec_ros.runtime.cost_model import CostModel
from memspec_ros.testing.scripted_model import ScriptedDraft, ScriptedTarget


def test_every_width_is_timed_and_the_target_left_empty():
    clock = VirtualClock()
    target = ScriptedTarget(on_extend=lambda width: clock.advance(0.010 + 0.001 * width))
    model = CostModel(max_draft_length=3)
    measure_target(model, target, clock=clock)
    assert [model.target_s(width) for width in (1, 2, 3, 4)] == pytest.approx(
        [0.011, 0.012, 0.013, 0.014])
    assert target.length == 0
    assert max(target.widths[1:]) == 4


def test_a_draft_step_is_timed_and_the_draft_left_fresh():
    clock = VirtualClock()
    target = ScriptedTarget()

    class SlowDraft(ScriptedDraft):
        def propose(self, context, num_tokens):
            clock.advance(0.002 * num_tokens)
            return super().propose(context, num_tokens)

    draft = SlowDraft('code', rule=target.rule)
    model = CostModel(max_draft_length=4)
    model.measure_target(1, 0.010)
    measure_drafts(model, {'code': draft}, target, clock=clock)
    assert model.draft_step_s('code') == pytest.approx(0.002)
    assert draft.num_resets == 2
    assert target.length == 0


def test_a_draft_that_proposes_nothing_is_left_to_its_default():
    target = ScriptedTarget()
    draft = ScriptedDraft('code', rule=lambda _: 0)
    model = CostModel(max_draft_length=4)
    model.measure_target(1, 0.010)
    measure_drafts(model, {'code': draft}, target, clock=VirtualClock())
    assert model.draft_step_s('code') == pytest.approx(0.0015)
