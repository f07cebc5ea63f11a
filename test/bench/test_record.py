# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Records, their file, and the figures made from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memspec_ros.bench.record import GoalRecord, RecordFile, digest_of
from memspec_ros.bench.summary import gmean, ratios, summarise
from memspec_ros.errors import DataError
from memspec_ros.runtime.metrics import GoalMetrics, TimeParts

RECORD = GoalRecord(
    strategy='memspec', workload='code', prompt='p0', run=0, num_tokens=100, num_iterations=50,
    num_drafted=150, num_accepted=50, desired_s=0.8, fallback_s=0.1, prediction_s=0.05,
    load_wait_s=0.05, startup_s=0.2, prefill_s=0.3, output='aa')


def test_a_record_is_what_the_runtime_counted():
    metrics = GoalMetrics(time=TimeParts(desired_s=1.0, fallback_s=0.5), num_committed=30,
                          num_iterations=20, startup_load_wait_s=0.2)
    record = GoalRecord.of(metrics, strategy='memspec', workload='code', prompt='p', run=2)
    assert (record.decode_s, record.num_tokens, record.startup_s) == (1.5, 30, 0.2)
    assert record.key == ('memspec', 'code', 'p', 2)


def test_outputs_are_told_apart():
    assert digest_of([1, 23]) != digest_of([12, 3])
    assert digest_of([1, 23]) == digest_of((1, 23))


def test_a_broken_run_goes_on_where_it_ended(tmp_path):
    path = tmp_path / 'records.jsonl'
    file = RecordFile(path)
    file.add(RECORD)
    file.add(replace(RECORD, run=1))
    path.write_text(path.read_text()[:-40])
    again = RecordFile(path)
    assert again.records == [RECORD]
    assert again.has(RECORD.key)
    assert not again.has(replace(RECORD, run=1).key)
    again.add(replace(RECORD, run=1))
    assert len(RecordFile(path).records) == 2


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / 'records.jsonl'
    path.write_text('{"speed": 1}\n')
    with pytest.raises(DataError, match='holds no measurements of this version'):
        RecordFile(path)


def test_throughput_is_tokens_over_decode_time_and_leaves_start_up_out():
    summary = summarise([RECORD, replace(RECORD, num_tokens=50, prompt='p1', desired_s=1.8)])
    assert summary.tokens_per_s['memspec']['code'] == pytest.approx(150 / 3.0)
    assert summary.end_to_end_s['memspec']['code'] == pytest.approx((2 * 0.5 + 3.0) / 2)
    assert summary.committed_per_iteration['memspec']['code'] == 1.5


def test_shares_sum_to_1():
    shares = summarise([RECORD]).shares['memspec']
    assert shares == pytest.approx({'desired': 0.8, 'fallback': 0.1, 'prediction': 0.05,
                                    'load_wait': 0.05})


def test_the_mean_over_workloads_is_geometric():
    slow = replace(RECORD, workload='law', desired_s=3.8)
    summary = summarise([RECORD, slow, replace(RECORD, strategy='plain'),
                         replace(slow, strategy='plain')])
    assert summary.gmean['memspec'] == pytest.approx((100 * 25) ** 0.5)
    assert ratios(summary, 'plain')['memspec'] == pytest.approx(1.0)
    assert ratios(summary, 'none') == {}
    assert gmean([]) == gmean([1.0, 0.0]) == 0.0


def test_outputs_that_differ_from_the_reference_are_counted():
    plain = replace(RECORD, strategy='plain', output='bb')
    summary = summarise([plain, RECORD, replace(RECORD, run=1, output='bb')])
    assert summary.num_different == {'plain': 0, 'memspec': 1}
