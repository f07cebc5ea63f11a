# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a measurement's folder to one HTML file."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest

from memspec_ros.bench import chart as chart_module
from memspec_ros.bench import report
from memspec_ros.bench.chart import Chart, draw
from memspec_ros.bench.figures import measured_figures
from memspec_ros.bench.record import GoalRecord, RecordFile
from memspec_ros.bench.summary import summarise
from memspec_ros.errors import DataError, DependencyError
from memspec_ros.replay.acceptance_table import AcceptanceTable, TracedDraft, TracedGoal
from memspec_ros.replay.profile import ORIN_NANO

PNG = b'\x89PNG\r\n'
STRATEGIES = ('plain', 'general_static', 'oracle_static', 'mab_sync', 'mab_async',
              'prediction_only', 'memspec', 'memspec_online', 'oracle_dynamic')
WORKLOADS = ('code', 'law')


def record_of(strategy, workload, speed):
    return GoalRecord(strategy=strategy, workload=workload, prompt='p', run=0, num_tokens=128,
                      num_iterations=128 // speed, num_drafted=90, num_accepted=60,
                      desired_s=0.8 / speed, fallback_s=0.1, prediction_s=0.02, load_wait_s=0.0,
                      startup_s=0.2, output='aa')


def records():
    return [record_of(strategy, workload, speed)
            for speed, strategy in enumerate(STRATEGIES, start=1) for workload in WORKLOADS]


def trace_of():
    rng = np.random.default_rng(0)
    goals = [TracedGoal(id=f'{domain}-{number}', domain=domain, ended=False,
                        prompt_ids=(1, number), output_ids=tuple(range(64)),
                        runs={draft: rng.integers(0, 8, 64).tolist()
                              for draft in ('general', 'code', 'law')})
             for domain in WORKLOADS for number in range(2)]
    drafts = {name: TracedDraft(domain=name) for name in ('general', 'code', 'law')}
    return AcceptanceTable(goals=tuple(goals), drafts=drafts, steps=7, max_tokens=64, target='')


@pytest.fixture
def measurement(tmp_path):
    file = RecordFile(tmp_path / 'records.jsonl')
    for record in records():
        file.add(record)
    ORIN_NANO.save(tmp_path / 'profile.json')
    (tmp_path / 'summary.json').write_text(json.dumps({
        'command': 'memspec bench --runs 1', 'config': {
            'draft_length': 3, 'parameters': {'runtime.reset_per_goal': True,
                                              'runtime.draft_length': 3}}}))
    return tmp_path


def command(*words):
    parser = argparse.ArgumentParser()
    report.add_arguments(parser)
    return report.run(parser.parse_args([str(word) for word in words]))


def test_every_figure_of_the_paper_is_drawn_with_the_configuration(measurement):
    trace_of().write(measurement / 'trace.safetensors')
    quality = measurement / 'predictor.json'
    quality.write_text(json.dumps({'target_state': {'both': {'top1': 0.8, 'top2': 0.97}}}))
    assert command(measurement, '--output', measurement / 'out',
                   '--predictor-report', quality) == 0
    page = (measurement / 'out' / 'report.html').read_text()
    for name in (*(f'figure {number}' for number in (1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12)),
                 'Table 1', 'Table 2', 'memspec bench --runs 1', '0.716', '0.800'):
        assert name in page
    images = sorted((measurement / 'out').glob('*.png'))
    assert len(images) == page.count('<img') == 14
    assert all(image.read_bytes().startswith(PNG) for image in images)


def test_without_a_trace_the_measured_figures_are_drawn(measurement):
    assert command(measurement) == 0
    assert len(list(measurement.glob('*.png'))) == 8


def test_a_folder_without_a_measurement_is_named(tmp_path):
    with pytest.raises(DataError, match=r'summary\.json cannot be read.*memspec bench writes it'):
        command(tmp_path)


def test_figures_lack_what_was_not_measured():
    some = [record for record in records() if record.strategy in ('plain', 'memspec')]
    charts = measured_figures(summarise(some), ORIN_NANO, 3, some)
    assert [chart.name for chart in charts] == ['figure 2']


def test_breakdowns_are_over_the_first_strategys_time():
    charts = {chart.name: chart for chart in measured_figures(
        summarise(records()), ORIN_NANO, 3, records())}
    parts = charts['figure 9'].ours
    assert sum(row['General-Static'] for row in parts.values()) == pytest.approx(1.0)
    assert sum(row['MemSpec'] for row in parts.values()) < 1.0
    assert charts['figure 9'].paper['fallback']['Prediction-Only'] == 0.213


def test_without_matplotlib_the_report_says_so(monkeypatch):
    import builtins
    real_import = builtins.__import__

    def refuse(name, *rest):
        if name.startswith('matplotlib'):
            raise ModuleNotFoundError(name)
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, '__import__', refuse)
    with pytest.raises(DependencyError, match='pip install matplotlib'):
        chart_module.draw(Chart(name='x', title='x', kind='bars', unit='', ours={}))


def test_a_chart_is_drawn_the_same_each_time():
    chart = Chart(name='x', title='x', kind='lines', unit='y', ours={'a': {'2': 1.0, '4': 2.0}})
    assert draw(chart) == draw(chart)
