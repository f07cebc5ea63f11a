# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/demo in the environment that scripts/test made: the real model, node and client."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120

pytestmark = pytest.mark.skipif('MEMSPEC_ENV' not in os.environ, reason='not run by scripts/test')


@pytest.fixture
def demo():
    """Start the script in a session of its own; what is left of that ends with the test."""
    started = []

    def start(*arguments):
        started.append(subprocess.Popen(
            [ROOT / 'scripts' / 'demo', *arguments], text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        for pid in processes_of_session(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate()


def processes_of_session(session):
    """Return the ids of the processes of a session that have not ended."""
    found = []
    for entry in Path('/proc').iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, of_process = (entry / 'stat').read_text().rsplit(') ')[1].split()[:4]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(of_process) == session and state != 'Z':
                found.append(int(entry.name))
    return found


def test_an_answer_with_its_throughput(demo):
    process = demo('Say hello.')
    text, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, said
    assert text.strip()
    assert re.search(r'\d+ tokens in .* tokens/s', said)
    assert processes_of_session(process.pid) == []


def test_ctrl_c_ends_everything(demo):
    process = demo('Count from one to one thousand, one number a line.')
    # The first character of the answer.
    assert process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert processes_of_session(process.pid) == []


def test_a_node_that_cannot_be_configured_is_a_failure_that_shows_why(demo, tmp_path):
    pool = tmp_path / 'pool.yaml'
    pool.write_text('name: broken\ntarget: none\ndrafts: {}\n')
    process = demo('--pool', str(pool), 'Say hello.')
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert 'drafts is {}; it must be a list' in said
    assert 'the node cannot be configured' in said
    assert processes_of_session(process.pid) == []
