# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the machine takes, measured on tiny models before a measurement."""

from __future__ import annotations

import contextlib

import pytest

from memspec_ros.bench.calibration import calibrate, measure_catch_up
from memspec_ros.bench.real_time import GoalKey, RealTimeBench
from memspec_ros.bench.regime import hold_load_time
from memspec_ros.bench.strategies import static_strategy
from memspec_ros.bench.workloads import BenchPrompt
from memspec_ros.config import Settings, read_params_file
from memspec_ros.runtime.assembly import assemble

KEY = GoalKey(workload='code', prompt=BenchPrompt(id='p', text='Pick up the cup and go.'))
MAX_TOKENS = 24


@pytest.fixture(scope='module')
def tiny(models):
    settings = Settings.from_parameters(read_params_file(models)).replace(
        {'runtime.draft_length': 3, 'runtime.reset_per_goal': True})
    made = RealTimeBench(assemble(settings, lambda _: None), settings, max_tokens=MAX_TOKENS,
                         unroll=3)
    with contextlib.closing(made):
        yield made


def test_every_draft_runs_alone_and_loads_beside_decoding(tiny):
    records = calibrate(tiny, [KEY])
    assert [record.strategy for record in records] == ['general', 'code', 'law', 'ngram',
                                                       'mab_async', 'mab_async']
    assert not any(record.timings.loads for record in records[:4])
    assert sum(len(record.timings.loads) for record in records[4:]) > 0
    for record in records[:3]:
        assert set(record.timings.steps) == {record.strategy}
        assert record.timings.switches[record.strategy][0] >= 1
    assert {record.output for record in records} == {records[0].output}


def test_a_catch_up_has_a_fixed_part_and_one_per_token(tiny):
    fixed_s, per_token_s = measure_catch_up(tiny, KEY, 256)
    assert fixed_s >= 0
    assert per_token_s >= 0
    assert fixed_s + per_token_s > 0


def test_goals_start_from_nothing(tiny):
    for _ in range(2):
        record = tiny.run(static_strategy('code'), KEY)
        assert (record.num_loads, record.num_evictions, record.num_wasted_prefetches) == (1, 0, 0)
        assert tiny.assembly.draft_cache.resident == frozenset()
        assert tiny.assembly.draft_cache.loading == ()


def test_a_plain_answer_leaves_the_targets_states_for_tracing(tiny):
    tokens, prompt_length, result = tiny.decode_plainly(KEY)
    assert tokens[prompt_length:] == list(result.token_ids)
    traced = tiny.trace(KEY)
    assert set(traced.runs) == {'general', 'code', 'law', 'ngram'}
    assert {len(runs) for runs in traced.runs.values()} == {len(result.token_ids)}


def test_no_cap_is_set_where_loads_are_slow_enough(tiny):
    regime = hold_load_time(tiny, [KEY], 0.0)
    assert regime.load_bandwidth_mb_s == 0.0
    assert regime.load_s == regime.natural_load_s > 0
