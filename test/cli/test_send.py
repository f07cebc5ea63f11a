# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec send`` with a client in place of ROS; test/process sends to a real node."""

import contextlib
import json
import os
import signal
import sys
import threading
import types

import pytest

from memspec_ros.cli import main
from memspec_ros.errors import ErrorCode, MemSpecError
from memspec_ros.records import Durations, FinishReason, GoalState, Progress, Result

WORDS = ('All ', 'clear.')


class SpokenGeneration:
    """Speaks from a thread, as a client's executor does, until its end or until cancelled."""

    def __init__(self, client, on_progress):
        self._client = client
        self._on_progress = on_progress
        self._cancelled = threading.Event()
        self._outcome = None

    def add_done_callback(self, callback):
        self._thread = threading.Thread(target=self._speak, args=(callback,))
        self._thread.start()

    def cancel(self):
        self._client.num_cancels += 1
        self._cancelled.set()

    def _speak(self, callback):
        for word in () if self._client.num_refusals else WORDS:
            self._on_progress(Progress(state=GoalState.DECODE, delta_text=word))
        if self._client.interrupts:
            os.kill(os.getpid(), signal.SIGINT)
            assert self._cancelled.wait(10.0)
        callback(self)

    def result(self):
        self._thread.join()
        if self._client.lost:
            raise MemSpecError('the node has left')
        if self._client.num_refusals:
            self._client.num_refusals -= 1
            return Result(error_code=ErrorCode.NOT_ACTIVE, error_msg='it is configuring')
        cancelled = self._cancelled.is_set()
        return Result(
            text=''.join(WORDS), prompt_tokens=3, completion_tokens=2, iterations=1,
            finish_reason=FinishReason.CANCELED if cancelled else FinishReason.STOP,
            error_code=ErrorCode.CANCELED if cancelled else ErrorCode.NONE,
            error_msg='a client canceled the goal' if cancelled else '',
            durations=Durations(queue_s=0.5, decode_s=0.25, total_s=1.0))


class SpokenClient:
    """At the boundary of memspec_ros.client."""

    def __init__(self):
        self.present = True
        self.lost = False
        self.interrupts = False
        self.num_refusals = 0
        self.num_cancels = 0
        self.requests = []
        self.connections = []

    @contextlib.contextmanager
    def connect(self, action_name, *, ros_args):
        self.connections.append((action_name, ros_args))
        yield self
        self.connections.append('closed')

    def wait_for_server(self, timeout_s):
        self.waited_s = timeout_s
        return self.present

    def send(self, request, on_progress):
        self.requests.append(request)
        return SpokenGeneration(self, on_progress)


@pytest.fixture
def client(monkeypatch):
    client = SpokenClient()
    monkeypatch.setitem(sys.modules, 'memspec_ros.client',
                        types.SimpleNamespace(connect=client.connect))
    return client


def send(capsys, *words):
    code = main.main(['send', *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_streams_the_text_and_sums_up_on_stderr(client, capsys):
    code, out, err = send(capsys, 'Report.', '--priority', '4', '--temperature', '0.5')
    assert (code, out) == (0, 'All clear.\n')
    assert err.startswith('2 tokens in 1.00 s; 8.0 tokens/s decoding; ')
    assert client.connections == [('generate', []), 'closed']
    assert (client.requests[0].prompt, client.requests[0].priority) == ('Report.', 4)
    assert client.requests[0].sampling.temperature == 0.5


@pytest.mark.usefixtures('client')
def test_json_has_the_names_of_generate(capsys, memspec):
    _, out, err = send(capsys, 'x', '--json')
    assert err == ''
    _, other, _ = memspec('generate', 'x', '--json')
    sent, generated = json.loads(out), json.loads(other)
    assert list(sent) == list(generated)
    assert list(sent['durations']) == list(generated['durations'])
    assert (sent['text'], sent['durations']['queue_s']) == ('All clear.', 0.5)


@pytest.mark.parametrize(('words', 'name'), [
    ([], 'generate'), (['--namespace', 'arm'], '/arm/generate'),
    (['--namespace', '/a/b/', '--action', 'say'], '/a/b/say')])
def test_the_namespace_leads_to_the_action(client, capsys, words, name):
    send(capsys, 'x', *words, '--ros-args', '--log-level', 'warn')
    assert client.connections[0] == (name, ['--ros-args', '--log-level', 'warn'])


def test_nobody_serves_it(client, capsys):
    client.present = False
    code, out, err = send(capsys, 'x', '--wait', '0.5', '--namespace', 'arm')
    assert (code, out) == (1, '')
    assert err == ("memspec: NOT_ACTIVE: no node serves the action '/arm/generate' within 0.5 s: "
                   'start one with memspec node, or see ROS_DOMAIN_ID and --namespace '
                   '(ros2 action list)\n')
    assert (client.waited_s, client.requests) == (0.5, [])


def test_a_node_that_is_not_active_yet_is_asked_again(client, capsys, monkeypatch):
    monkeypatch.setattr('memspec_ros.cli.send.RETRY_S', 0.0)
    client.num_refusals = 3
    code, out, err = send(capsys, 'x', '--wait', '60')
    assert (code, out, len(client.requests)) == (0, 'All clear.\n', 4)
    assert err.startswith('memspec: it is configuring; waiting\n2 tokens')
    client.num_refusals = 1
    assert send(capsys, 'x', '--wait', '60', '--json')[2] == ''


def test_but_not_for_ever(client, capsys, monkeypatch):
    now_s = iter([0.0, 5.0, 9.9, 10.0])
    monkeypatch.setattr('memspec_ros.cli.send.time.monotonic', lambda: next(now_s))
    monkeypatch.setattr('memspec_ros.cli.send.RETRY_S', 0.0)
    client.num_refusals = 9
    code, out, err = send(capsys, 'x', '--wait', '10')
    assert (code, out, len(client.requests)) == (1, '', 3)
    assert err.endswith('memspec: NOT_ACTIVE: it is configuring\n')


def test_ctrl_c_cancels_the_goal_and_waits_for_its_result(client, capsys):
    client.interrupts = True
    code, out, err = send(capsys, 'x')
    assert (code, out, client.num_cancels) == (1, 'All clear.\n', 1)
    assert err.startswith('memspec: CANCELED: a client canceled the goal\n2 tokens in 1.00 s')


def test_a_node_that_leaves_fails_the_goal(client, capsys):
    client.lost = True
    assert send(capsys, 'x') == (1, 'All clear.\n', 'memspec: INTERNAL: the node has left\n')
    code, out, _ = send(capsys, 'x', '--json')
    assert (code, json.loads(out)['error_msg']) == (1, 'the node has left')


def test_a_wrong_option_sends_nothing(client, capsys):
    code, _, err = send(capsys, 'x', '--top-p', '2')
    assert (code, client.connections) == (2, [])
    assert err == 'memspec: top_p is 2.0; it must be a number in [0.0, 1.0]\n'
