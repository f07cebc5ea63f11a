# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A device profile from measured goals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memspec_ros.bench.machine_profile import profile_of
from memspec_ros.bench.record import GoalRecord
from memspec_ros.bench.timings import Timings
from memspec_ros.replay.profile import DeviceProfile

START = DeviceProfile(
    name='this machine', target_s=(0.0, 0.010, 0.012, 0.014, 0.016), load_s={'': 0.05},
    draft_step_s={'': 0.002, 'code': 0.002, 'ngram': 0.0001}, overhead_s=0.001,
    catch_up_s=(0.003, 0.0))
RECORD = GoalRecord(
    strategy='memspec', workload='code', prompt='p', run=0, num_tokens=100, num_iterations=50,
    num_drafted=150, num_accepted=50, desired_s=0.8, fallback_s=0.1, prediction_s=0.06,
    load_wait_s=0.0, startup_s=0.2, num_points=13, timings=Timings(
        target={'4': [40.0, 0.8]}, target_loading={'4': [10.0, 0.25]},
        steps={'code': [60.0, 0.18]}, switches={'code': [4.0, 0.06, 12.0]},
        overhead={'all': [40.0, 0.08]}, loads={'code': [2.0, 0.11], 'law': [1.0, 0.07]}))


def test_the_means_of_what_was_measured_take_their_place():
    profile = profile_of(START, [RECORD, RECORD])
    assert profile.target_s[4] == pytest.approx(0.020)
    assert profile.target_s[1] == pytest.approx(0.010 * 20 / 16)
    assert profile.step_s('code') == pytest.approx(0.003)
    assert profile.step_s('another') == pytest.approx(0.003)
    assert profile.step_s('ngram') == 0.0001
    assert profile.overhead_s == pytest.approx(0.002)
    assert profile.catch_up_s[0] == pytest.approx(0.06 / 4 - 3 * 0.003)
    assert profile.prediction_s == pytest.approx(0.005)
    assert profile.load_slowdown == pytest.approx(1.25)
    assert profile.load_of('code') == profile.load_of('law') == pytest.approx(0.06)
    assert profile.awaited_load_share == pytest.approx(0.05 / 0.06)
    assert '2 measured goals' in profile.source


def test_what_was_not_measured_stays():
    bare = replace(RECORD, timings=Timings(), strategy='plain')
    assert profile_of(START, [bare]) == START
    few = replace(RECORD, strategy='plain', timings=Timings(target={'4': [2.0, 1.0]}))
    kept = profile_of(START, [few])
    assert (kept.target_s, kept.prediction_s, kept.load_slowdown) == (START.target_s, 0.0, 1.0)
    assert kept.catch_up_s == START.catch_up_s
