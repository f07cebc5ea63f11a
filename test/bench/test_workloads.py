# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Workloads and the choice of strategies."""

from __future__ import annotations

import json

import pytest

from memspec_ros.bench.strategies import STRATEGIES, choose_strategies
from memspec_ros.bench.workloads import open_workloads
from memspec_ros.config import POLICIES, Settings
from memspec_ros.errors import ConfigError, DataError


def write(path, num_prompts, prefix=''):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(''.join(json.dumps({'id': f'{prefix}{number}', 'prompt': f'say {number}'})
                            + '\n' for number in range(num_prompts)))
    return path


def test_a_workload_is_the_same_sample_each_time(tmp_path):
    path = write(tmp_path / 'code.jsonl', 50)
    first, = open_workloads([f'code={path}'], num_prompts=10)
    second, = open_workloads([f'code={path}'], num_prompts=10)
    other, = open_workloads([f'code={path}'], num_prompts=10, seed=1)
    assert first == second != other
    assert len({prompt.id for prompt in first.prompts}) == 10
    whole, = open_workloads([f'code={path}'], num_prompts=100)
    assert len(whole.prompts) == 50


def test_a_folder_gives_the_papers_five_in_their_order(tmp_path):
    for name in ('law', 'code', 'robot'):
        write(tmp_path / name / 'any.jsonl', 3)
    write(tmp_path / 'general' / 'mt_bench.jsonl', 3, 'mt')
    write(tmp_path / 'general' / 'self_instruct_user.jsonl', 3, 'si')
    workloads = open_workloads([str(tmp_path)], num_prompts=9)
    assert [workload.name for workload in workloads] == ['general', 'code', 'law']
    assert all(prompt.id.startswith('si') for prompt in workloads[0].prompts)


def test_domains_can_be_named_and_a_file_grouped_by_them(tmp_path):
    for name in ('law', 'code', 'robot'):
        write(tmp_path / 'data' / name / 'any.jsonl', 3)
    workloads = open_workloads([str(tmp_path / 'data')], domains=['robot', 'law'])
    assert [(one.name, len(one.prompts)) for one in workloads] == [('robot', 3), ('law', 3)]
    path = tmp_path / 'mixed.jsonl'
    path.write_text(''.join(json.dumps({'id': f'm{number}', 'domain': domain, 'prompt': 'say'})
                            + '\n' for number, domain in enumerate(('code', 'law', 'code'))))
    assert {one.name: len(one.prompts) for one in open_workloads([str(path)])} == {
        'code': 2, 'law': 1}
    with pytest.raises(ConfigError, match="of domain 'lav'; did you mean 'law'"):
        open_workloads([str(path)], domains=['lav'])


def test_sources_that_cannot_serve_are_named(tmp_path):
    with pytest.raises(ConfigError, match="'nowhere' is neither NAME=FILE nor a file or folder"):
        open_workloads(['nowhere'], num_prompts=1)
    with pytest.raises(ConfigError, match='has none of the folders general, code'):
        open_workloads([str(tmp_path)], num_prompts=1)
    with pytest.raises(DataError, match="'code' has no prompts"):
        open_workloads([f'code={write(tmp_path / "x.jsonl", 0)}'], num_prompts=1)


def test_every_policy_is_a_strategy_with_settings_that_exist():
    assert set(POLICIES) < set(STRATEGIES)
    for strategy in choose_strategies([]):
        Settings().replace(strategy.parameters)


def test_an_unknown_strategy_is_named():
    assert [strategy.name for strategy in choose_strategies(['memspec'])] == ['memspec']
    with pytest.raises(ConfigError, match=r"'memspek'; did you mean 'memspec'"):
        choose_strategies(['memspek'])
