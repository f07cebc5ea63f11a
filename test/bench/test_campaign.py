# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The order of measurements, and the folder that a broken run goes on from."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from memspec_ros.bench.campaign import Campaign, check_job, fitting, in_turn, stop_signals
from memspec_ros.bench.record import GoalRecord
from memspec_ros.bench.strategies import choose_strategies
from memspec_ros.bench.workloads import BenchPrompt, Workload
from memspec_ros.errors import ConfigError, DataError

NAMES = ('plain', 'memspec', 'mab_async')
STRATEGIES = choose_strategies(NAMES)


def workload(name, num_prompts):
    return Workload(name=name, prompts=tuple(
        BenchPrompt(id=f'{name}-{number}', text='go') for number in range(num_prompts)))


def record_of(task):
    strategy, name, prompt, run = task.record_key
    return GoalRecord(strategy=strategy, workload=name, prompt=prompt, run=run, num_tokens=1,
                      num_iterations=1, num_drafted=0, num_accepted=0, desired_s=1.0,
                      fallback_s=0.0, prediction_s=0.0, load_wait_s=0.0, startup_s=0.0)


def test_all_strategies_take_turns_on_each_prompt_and_each_begins_as_often():
    tasks = list(in_turn(STRATEGIES, [workload('code', 3), workload('law', 2)], num_runs=2))
    assert len({task.record_key for task in tasks}) == len(tasks) == 3 * 5 * 2
    groups = [tasks[start:start + 3] for start in range(0, len(tasks), 3)]
    for group in groups:
        assert {task.strategy.name for task in group} == set(NAMES)
        assert len({(task.key.prompt.id, task.key.run) for task in group}) == 1
    assert [group[0].key.workload for group in groups[:5]] == ['code', 'law', 'code', 'law',
                                                               'code']
    first = Counter(group[0].strategy.name for group in groups if group[0].key.run == 0)
    assert max(first.values()) - min(first.values()) <= 1


def test_a_strategy_can_be_left_out_of_a_workload():
    tasks = list(in_turn(STRATEGIES, [workload('code', 1), workload('law', 1)], 1,
                         wanted=lambda strategy, name: strategy.name != 'plain' or name == 'law'))
    assert [task.key.workload for task in tasks if task.strategy.name == 'plain'] == ['law']


def test_only_what_is_missing_is_measured(tmp_path):
    tasks = list(in_turn(STRATEGIES, [workload('code', 2)], 1))
    measured = []

    def measure(task):
        measured.append(task)
        if len(measured) == 3:
            raise KeyboardInterrupt
        return record_of(task)

    with pytest.raises(KeyboardInterrupt):
        Campaign(tmp_path, {'x': 1}).run(tasks, measure, label='try')
    again = Campaign(tmp_path, {'x': 1})
    again.run(tasks, measure, label='try')
    assert len(measured) == len(tasks) + 1
    assert {record.key for record in again.of(tasks[:4])} == {
        task.record_key for task in tasks[:4]}


def test_another_job_is_refused_with_what_differs(tmp_path):
    check_job(tmp_path / 'job.json', {'gamma': 3, 'drafts': ('a', 'b')})
    check_job(tmp_path / 'job.json', {'gamma': 3, 'drafts': ('a', 'b')})
    with pytest.raises(ConfigError, match=r'with drafts .* this run has .*--restart'):
        check_job(tmp_path / 'job.json', {'gamma': 3, 'drafts': ('a',)})
    (tmp_path / 'job.json').write_text('{')
    with pytest.raises(DataError, match='cannot be read'):
        check_job(tmp_path / 'job.json', {})


def test_prompts_that_do_not_fit_make_room_for_the_next():
    class Bench:
        """Has room for all prompts but two."""

        def fits(self, prompt):
            return prompt.id not in ('code-0', 'code-2')

    kept, num_left_out = fitting(workload('code', 6), Bench(), 3)
    assert [prompt.id for prompt in kept.prompts] == ['code-1', 'code-3', 'code-4']
    assert num_left_out == 2


def test_sigterm_ends_a_run_as_ctrl_c_does():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), stop_signals():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
