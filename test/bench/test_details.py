# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The result of an evaluation: its shape, its details, and the table that is printed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memspec_ros.bench.details import (
    details_of,
    iteration_parts,
    load_warning,
    result_of,
    table_lines,
)
from memspec_ros.bench.iteration_log import Stalls
from memspec_ros.bench.record import GoalRecord
from memspec_ros.bench.summary import summarise
from memspec_ros.bench.timings import Timings
from memspec_ros.replay.profile import ORIN_NANO

GENERAL = GoalRecord(
    strategy='general_static', workload='code', prompt='p', run=0, num_tokens=100,
    num_iterations=50, num_drafted=150, num_accepted=50, desired_s=0.9, fallback_s=0.0,
    prediction_s=0.1, load_wait_s=0.0, startup_s=0.2, wall_decode_s=1.25, num_loads=1,
    output='aa', timings=Timings(target={'4': [50.0, 0.6]}, steps={'general': [90.0, 0.2]},
                                 overhead={'all': [50.0, 0.1]}))
MEMSPEC = replace(GENERAL, strategy='memspec', desired_s=0.4, num_loads=3, stalls=Stalls(
    median_s=0.010, worst_s=0.012, num_loading=20, num_slow=1))
RECORDS = [GENERAL, MEMSPEC]


def document(**config):
    summary = summarise(RECORDS)
    return result_of(summary, config={'complete': True, **config}, command='memspec bench',
                     details=details_of(summary, RECORDS, ORIN_NANO))


def test_the_result_has_the_keys_that_are_asked_for():
    made = document()
    assert list(made)[:6] == ['config', 'command', 'tokens_per_s', 'gmean', 'shares',
                              'committed_per_iteration']
    assert made['tokens_per_s'] == {'general_static': {'code': 100.0}, 'memspec': {'code': 200.0}}
    details = made['details']
    assert details['over_general_static'] == {'general_static': 1.0, 'memspec': 2.0}
    assert details['per_goal']['memspec']['num_loads'] == 3
    assert details['unaccounted_share'] == pytest.approx((2.5 - 1.9) / 2.5)
    assert details['stalls'] == {'memspec': {
        'worst_over_median': 1.2, 'share_over_1_25_medians': 0.05,
        'iterations_during_loads': 20}}
    assert details['latencies_s']['iteration'] == pytest.approx(0.02)
    assert details['latencies_s']['absent_switch'] == pytest.approx(
        ORIN_NANO.load_of('') + ORIN_NANO.catch_up_s[0], rel=1e-3)


def test_the_parts_of_decoding_sum_to_one():
    parts = iteration_parts(RECORDS)['general_static']
    assert sum(parts.values()) == pytest.approx(1.0)
    assert parts['scheduling'] == pytest.approx(0.1)
    assert parts['target'] == pytest.approx(0.9 * 0.6 / 0.9)
    assert iteration_parts([replace(GENERAL, timings=Timings())]) == {}


def test_the_printed_table_says_what_matters():
    text = '\n'.join(table_lines(document()))
    assert 'memspec: 2.000x general_static' in text
    assert '0 of 1' in text
    assert 'not complete' not in text
    broken = '\n'.join(table_lines(document(complete=False, load={'share_of_others': 0.4})))
    assert 'the same command goes on from here' in broken
    assert 'other programs took 40 % of the processors' in broken


def test_a_quiet_machine_needs_no_warning():
    assert load_warning({'load': {'share_of_others': 0.02}}) == load_warning({}) == ''
