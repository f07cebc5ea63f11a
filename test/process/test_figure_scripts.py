# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The scripts that make figures, on few cases: they run, and what they write has its form."""

import json

import pytest
from node_process import ROOT

LIMIT_S = 300


@pytest.fixture
def run(start, tmp_path):
    """Run a script to its end and return its exit code and what it wrote."""
    def run_script(name, *arguments):
        output = tmp_path / 'figures.json'
        process = start(ROOT / 'scripts' / name, *arguments, '--output', output)
        code = process.process.wait(LIMIT_S)
        assert output.exists(), process.output
        return code, json.loads(output.read_text(encoding='utf-8'))
    return run_script


def test_soak(run):
    _, figures = run('soak', '--goals', '40', '--clients', '2')
    assert figures['goals'] == figures['ended_once'] == figures['joined_deltas'] == 40
    assert sum(figures['by_status'].values()) == 40
    assert figures['threads'][0] == figures['threads'][1]
    assert len(figures['fds']) == 2
    assert figures['tracebacks'] == 0
    assert figures['command'].startswith('scripts/soak --goals 40')
    # So few goals tell nothing of leaks: growth is for the run of 2,000.
    assert figures['rss_growth'] < 0.5


def test_fuzz(run):
    code, figures = run('fuzz', '--goals', '120', '--parameters', '80', '--files', '120',
                        '--dds', '20')
    cases = {kind: (values['cases'], values['failures']) for kind, values in figures.items()
             if kind != 'command'}
    assert cases == {'goals': (120, 0), 'parameters': (80, 0), 'params_files': (40, 0),
                     'gguf': (40, 0), 'safetensors': (40, 0), 'pool': (40, 0),
                     'goals_over_dds': (20, 0)}
    assert code == 0


def test_overhead(run):
    _, figures = run('overhead', '--model', 'tiny', '--rounds', '2', '--cancels', '3',
                     '--tokens', '32')
    assert figures['action_over_runtime'] > 0
    assert set(figures['cancel_ms']) == {'median', 'max'}
    assert figures['reused_tokens'] >= figures['system_tokens'] >= 400
    feedback = figures['feedback']
    assert feedback == {'goals': 2, 'in_order': 2, 'joined': 2, 'lost': 0}
