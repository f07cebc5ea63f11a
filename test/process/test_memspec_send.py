# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec send`` in a process of its own, to a node in another one."""

import json
import signal
import subprocess
import sys

import pytest
from node_process import LIMIT_S, ROOT

pytestmark = pytest.mark.usefixtures('served')
NODE_OPTIONS = ('--iteration-s', 0.01)


def send(*words):
    """Run the command to its end; exit code, stdout and stderr."""
    done = subprocess.run([sys.executable, '-m', 'memspec_ros.cli', 'send', *words], cwd=ROOT,
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return done.returncode, done.stdout, done.stderr


def test_streams_the_text_and_sums_it_up():
    code, out, err = send('say something', '--max-tokens', '6', '--wait', str(LIMIT_S))
    assert (code, out) == (0, 'w0 w1 w2 w3 w4 w5 \n')
    assert err.startswith('6 tokens in ')
    assert err.endswith('ended by LENGTH\n')


def test_json_is_the_whole_result_as_one_object():
    code, out, err = send('say something', '--max-tokens', '4', '--json')
    result = json.loads(out)
    assert (code, err) == (0, '')
    assert (result['text'], result['finish_reason']) == ('w0 w1 w2 w3 ', 'LENGTH')
    assert (result['prompt_tokens'], result['completion_tokens']) == (2, 4)
    assert result['durations']['total_s'] >= result['durations']['decode_s'] > 0


def test_a_goal_that_is_refused_fails_with_its_code():
    code, out, err = send('x', '--draft', 'alfa')
    assert (code, out) == (1, '')
    assert err.startswith("memspec: UNKNOWN_DRAFT: draft_hint is 'alfa'")


def test_ctrl_c_cancels_the_goal_and_shows_its_result():
    with subprocess.Popen([sys.executable, '-m', 'memspec_ros.cli', 'send', 'on and on',
                           '--max-tokens', '2000'], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.read(2) == 'w0'
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert 'w3 ' in out
    assert err.startswith('memspec: CANCELED: ')
    assert 'ended by CANCELED' in err


@pytest.mark.usefixtures('ros_domain')
def test_without_a_node_it_says_so():
    code, out, err = send('x', '--wait', '0.5')
    assert (code, out) == (1, '')
    assert err.startswith("memspec: NOT_ACTIVE: no node serves the action 'generate'")


def test_it_waits_for_a_node_that_is_still_loading(start_node):
    start_node('--load-s', 1)
    code, out, _ = send('x', '--max-tokens', '2', '--wait', str(LIMIT_S))
    assert (code, out) == (0, 'w0 w1 \n')
