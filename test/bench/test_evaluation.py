# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec bench`` in real time and in replay, end to end on tiny models."""

from __future__ import annotations

import json

import pytest

from memspec_ros.bench.record import RecordFile
from memspec_ros.bench.strategies import STRATEGIES
from memspec_ros.testing.model_files import byte_tokens
from memspec_ros.testing.tiny_draft import tiny_config, write_tiny_draft

KEYS = {'config', 'command', 'tokens_per_s', 'gmean', 'shares', 'committed_per_iteration'}


def read(path):
    return json.loads(path.read_text(encoding='utf-8'))


def test_every_strategy_is_measured_and_replayed(bench, tmp_path):
    code, out, _ = bench('--stall')
    assert code == 0
    result = read(tmp_path / 'result.json')
    assert set(result) >= KEYS
    for table in ('tokens_per_s', 'shares', 'committed_per_iteration', 'gmean'):
        assert set(result[table]) == set(STRATEGIES)
    assert set(result['tokens_per_s']['memspec']) == {'general', 'code', 'law'}
    for shares in result['shares'].values():
        assert sum(shares.values()) == pytest.approx(1.0, abs=1e-3)
    details, config = result['details'], result['config']
    assert set(details['num_different'].values()) == {0}
    assert details['per_goal']['plain']['num_loads'] == 0
    assert details['per_goal']['general_static']['num_loads'] == 1
    assert details['unaccounted_share'] < 1.0
    assert details['swap_stall']['num_loads'] >= 1
    for parts in details['iteration_parts'].values():
        assert sum(parts.values()) == pytest.approx(1.0, abs=1e-3)
    assert config['complete']
    assert config['prompts'] == {'general': 1, 'code': 1, 'law': 1}
    assert config['regime']['load_s'] > 0
    assert {'share_of_others', 'load_average_before'} <= set(config['load'])
    assert 'memspec_online' in out

    code, out, _ = bench('--replay', '--trace', tmp_path / 'result' / 'trace.safetensors',
                         '--real', tmp_path / 'result.json', '--result',
                         tmp_path / 'replay.json', '--draft-length', '3', real_time=False)
    assert code == 0
    replayed = read(tmp_path / 'replay.json')
    assert list(replayed['devices']) == ['this machine', 'orin_nano', 'agx_orin']
    assert set(replayed['devices']['orin_nano']['gmean']) == set(STRATEGIES)
    sweeps = replayed['sweeps']['orin_nano']
    assert set(sweeps['scheduling_interval']['memspec']) == {'2', '4', '8', '16'}
    assert set(sweeps['cache_capacity']['mab_async']) == {'2', '3'}
    agreement = read(tmp_path / 'replay_vs_real.json')
    assert set(agreement) == set(STRATEGIES)
    assert 'replay / real' in out


def test_a_run_that_is_broken_off_goes_on_and_measures_nothing_twice(bench, tmp_path,
                                                                     monkeypatch):
    words = ('--strategies', 'plain,memspec', '--domains', 'code,law')
    add = RecordFile.add

    def broken_off(self, record):
        if len(self.records) == 2:
            raise KeyboardInterrupt
        add(self, record)

    monkeypatch.setattr(RecordFile, 'add', broken_off)
    code, out, err = bench(*words)
    assert code == 1
    assert 'the same command goes on from here' in out + err
    assert not read(tmp_path / 'result.json')['config']['complete']
    lines = (tmp_path / 'result' / 'records.jsonl').read_text().splitlines()
    assert len(lines) == 2
    regime = read(tmp_path / 'result' / 'regime.json')

    monkeypatch.setattr(RecordFile, 'add', add)
    assert bench(*words)[0] == 0
    result = read(tmp_path / 'result.json')
    assert result['config']['complete']
    assert result['config']['regime']['load_bandwidth_mb_s'] == pytest.approx(
        regime['load_bandwidth_mb_s'], rel=1e-3)
    again = (tmp_path / 'result' / 'records.jsonl').read_text().splitlines()
    assert again[:len(lines)] == lines
    assert len(again) == 4


def test_a_folder_of_another_configuration_is_refused(bench, tmp_path):
    words = ('--strategies', 'plain', '--domains', 'code')
    assert bench(*words)[0] == 0
    code, _, err = bench(*words, '--draft-length', '2')
    assert code == 2
    assert 'give another --output, or --restart' in err
    assert bench(*words, '--draft-length', '2', '--restart')[0] == 0
    assert read(tmp_path / 'result.json')['config']['draft_length'] == 2


def test_a_draft_of_another_content_is_another_job(bench, models):
    words = ('--strategies', 'general_static', '--domains', 'code')
    assert bench(*words)[0] == 0
    path = models.with_name('law.safetensors')
    kept = path.read_bytes()
    write_tiny_draft(path, seed=99, domain='law',
                     config=tiny_config(vocab_size=len(byte_tokens())))
    try:
        code, _, err = bench(*words)
    finally:
        path.write_bytes(kept)
    assert (code, 'holds measurements with drafts' in err) == (2, True)


def test_the_deterministic_mode_is_stated(bench, tmp_path):
    assert bench('--deterministic', '--strategies', 'plain,ngram', '--domains', 'law')[0] == 0
    result = read(tmp_path / 'result.json')
    assert result['config']['deterministic']
    assert result['details']['num_different'] == {'plain': 0, 'ngram': 0}


def test_what_is_missing_or_unknown_is_named(bench):
    code, _, err = bench(real_time=False)
    assert (code, '--workloads is missing' in err) == (2, True)
    code, _, err = bench('--strategies', 'memspek')
    assert (code, "did you mean 'memspec'" in err) == (2, True)


def test_without_a_pool_only_plain_and_ngram_can_be_measured(bench, tmp_path):
    code, _, err = bench('--param', 'draft.pool=', '--strategies', 'plain,memspec')
    assert (code, 'the pool has no drafts, which memspec need' in err) == (2, True)
    assert bench('--param', 'draft.pool=', '--strategies', 'plain,ngram')[0] == 0
    result = read(tmp_path / 'result.json')
    assert set(result['gmean']) == {'plain', 'ngram'}
    assert result['config']['regime'] == {}
