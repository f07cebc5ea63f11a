# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Faults below a node that serves: nothing hangs, goals are answered, diagnostics say why."""

import os
import signal
from pathlib import Path

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from peer import wait_for
from tiny_model import DRAFTS, ros_arguments, write_tiny_model

from memspec_ros.client import connect
from memspec_ros.errors import ErrorCode
from memspec_ros.records import Request

NODE = Path(__file__).resolve().parents[1] / 'ros_support' / 'faulty_node.py'
LIMIT_S = 60
# The paper's policy waits for d_0 and drafts whatever it is worth, so that each goal meets the
# fault, however fast the machine is and however little these drafts of random weights are worth.
DRAFTING = {'runtime.policy': 'memspec', 'runtime.draft_length': 3}


class Faulty:
    """A node on small real models, and the fault that its drafts meet."""

    def __init__(self, start, folder, **parameters):
        self.order_file = folder / 'order'
        self.order('ok')
        self.folder = folder
        changes = {name.replace('__', '.'): value for name, value in parameters.items()}
        self.process = start(NODE, self.order_file, *ros_arguments(
            {**write_tiny_model(folder), **DRAFTING, 'runtime.reset_per_goal': True, **changes}))
        self.process.wait_for('active', LIMIT_S)

    def order(self, fault):
        """Have the next read of a draft meet a fault."""
        # Renamed into place: the node may read at any moment.
        fresh = self.order_file.with_suffix('.new')
        fresh.write_text(fault)
        fresh.rename(self.order_file)


@pytest.fixture
def faulty(start, tmp_path):
    return lambda **parameters: Faulty(start, tmp_path, **parameters)


@pytest.fixture
def client(ros_domain):  # noqa: ARG001
    with connect(server_wait_s=LIMIT_S) as client:
        yield client


def ask(client, max_tokens=60, **options):
    result = client.send(Request(prompt='hello robot', max_tokens=max_tokens,
                                 **options)).result(LIMIT_S)
    assert result.error_code is ErrorCode.NONE, result.error_msg
    return result


def drafts_status(messages, condition):
    """Return the status of the drafts, as soon as it meets a condition."""
    def of(message):
        return next((one for one in message.status if one.name == 'memspec: drafts'), None)
    return of(wait_for(messages, lambda message: of(message) and condition(of(message))))


@pytest.mark.parametrize(('fault', 'reason'), [
    ('disk', 'Input/output error'), ('crash', 'ZeroDivisionError: a defect in the reader')])
def test_drafts_that_cannot_be_read_cost_speed_only(faulty, client, peer, fault, reason):
    node = faulty()
    whole = ask(client)
    node.order(fault)
    assert ask(client).text == whole.text
    with peer.listening(DiagnosticArray, '/diagnostics') as messages:
        status = drafts_status(messages, lambda one: reason in one.message)
    assert status.level in (DiagnosticStatus.WARN, DiagnosticStatus.ERROR)
    assert set(ask(client).drafts_used) <= {'ngram', *DRAFTS}
    assert node.process.stop()[0] == 0


def test_out_of_memory_in_the_loader_shrinks_k(faulty, client, peer):
    node = faulty()
    whole = ask(client)
    node.order('memory')
    assert ask(client).text == whole.text
    with peer.listening(DiagnosticArray, '/diagnostics') as messages:
        status = drafts_status(messages, lambda one: 'K is 1' in one.message)
    assert status.level != DiagnosticStatus.OK
    assert 'ran out of memory' in status.message
    assert ask(client).text == whole.text


def test_a_file_that_is_truncated_while_serving_is_named(faulty, client, peer):
    node = faulty()
    whole = ask(client)
    for name in DRAFTS:
        os.truncate(node.folder / f'{name}.safetensors', 300)
    assert ask(client).text == whole.text
    with peer.listening(DiagnosticArray, '/diagnostics') as messages:
        status = drafts_status(messages, lambda one: one.level != DiagnosticStatus.OK)
    assert '.safetensors' in status.message
    assert ask(client).drafts_used in ((), ('ngram',))


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_loader_that_stands_still_holds_nobody_up(faulty, client, peer, number):
    node = faulty()
    node.order('stall')
    # The first goal waits until the stall shows, the others do not; reset_per_goal or not.
    whole = ask(client)
    with peer.listening(DiagnosticArray, '/diagnostics') as messages:
        status = drafts_status(messages, lambda one: 'has stalled' in one.message)
    assert status.level == DiagnosticStatus.WARN
    assert whole.drafts_used in ((), ('ngram',))
    for _ in range(3):
        assert ask(client).text == whole.text
    code, seconds = node.process.stop(number)
    assert (code, seconds < 3.0) == (0, True)


def test_after_a_stall_drafts_are_loaded_again(faulty, client, peer):
    node = faulty(runtime__reset_per_goal=False)
    node.order('stall')
    ask(client)
    node.order('ok')
    with peer.listening(DiagnosticArray, '/diagnostics') as messages:
        for _ in range(LIMIT_S):  # a message a second
            if set(ask(client).drafts_used) & set(DRAFTS):
                break
            messages.get(timeout=LIMIT_S)
        else:
            pytest.fail('no draft was used again')
        drafts_status(messages, lambda one: one.level == DiagnosticStatus.OK)


def test_a_clock_that_stands_still_stops_no_timer(faulty, client, peer):
    """With simulated time and nobody who publishes it, ROS time is 0 for ever."""
    faulty(use_sim_time=True)
    ask(client)
    result = client.send(Request(prompt='a', max_tokens=900, timeout_s=0.001)).result(LIMIT_S)
    assert result.error_code is ErrorCode.TIMEOUT
    with peer.listening(DiagnosticArray, '/diagnostics') as messages:
        first, second = messages.get(timeout=LIMIT_S), messages.get(timeout=LIMIT_S)
    assert first.header.stamp == second.header.stamp
    assert peer.state() == 'active'
