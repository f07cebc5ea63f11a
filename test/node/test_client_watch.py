# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the client of a goal is there, by graph and process."""

import pytest

from memspec_ros.node import client_watch
from memspec_ros.node.client_guid import Process
from memspec_ros.node.client_watch import GRACE_S, ClientTrace, ClientWatch

A, B = b'a' * 12, b'b' * 12


@pytest.fixture
def watch(node, clock):
    return ClientWatch(node, '/generate', clock=clock)


@pytest.fixture
def ended(monkeypatch):
    """Processes that have ended."""
    ended = set()
    monkeypatch.setattr(client_watch, 'has_ended', lambda process: process in ended)
    return ended


def test_there_as_long_as_the_graph_has_it(watch, node, clock):
    node.subscribers = [A]
    trace = watch.trace(A)
    for _ in range(3):
        clock.now_s += 10 * GRACE_S
        assert not watch.is_lost(trace, watch.present())


def test_lost_when_the_graph_has_had_none_for_a_while(watch, clock):
    trace = watch.trace(A)
    assert not watch.is_lost(trace, frozenset([A, B]))
    clock.now_s += GRACE_S / 2
    assert not watch.is_lost(trace, frozenset([B]))
    clock.now_s += GRACE_S
    assert watch.is_lost(trace, frozenset([B]))


def test_one_that_comes_back_into_the_graph_is_there(watch, clock):
    trace = watch.trace(A)
    for present in ([A], [], [A], []):
        assert not watch.is_lost(trace, frozenset(present))
        clock.now_s += 0.75 * GRACE_S


def test_a_sender_that_the_graph_never_had_is_anyone_who_listens(watch, clock):
    trace = watch.trace(A)
    clock.now_s += 2 * GRACE_S
    assert not watch.is_lost(trace, frozenset([B]))
    assert not watch.is_lost(trace, frozenset([B]))
    clock.now_s += 2 * GRACE_S
    assert watch.is_lost(trace, frozenset())


def test_lost_at_once_when_its_process_has_ended(watch, ended):
    process = Process(1, '2')
    trace = ClientTrace(prefixes=frozenset([A]), present_s=0.0, processes={A: process})
    assert not watch.is_lost(trace, frozenset([A]))
    ended.add(process)
    assert watch.is_lost(trace, frozenset([A]))


def test_an_unknown_sender_is_anyone_who_listens(watch, node, ended):
    node.subscribers = [A, B]
    trace = watch.trace(None)
    assert trace.prefixes == {A, B}
    trace.processes = {A: Process(1, '1'), B: Process(2, '2')}
    ended.add(trace.processes[A])
    assert not watch.is_lost(trace, watch.present())
    ended.add(trace.processes[B])
    assert watch.is_lost(trace, watch.present())


def test_a_sender_that_nobody_knows_is_never_lost(watch, clock):
    trace = watch.trace(None)
    clock.now_s += 100 * GRACE_S
    assert not watch.is_lost(trace, frozenset())


def test_a_client_that_was_seen_is_known_when_it_is_dead(watch, node, ended, monkeypatch):
    processes = {A: Process(1, '1')}
    monkeypatch.setattr(client_watch, 'find_process', lambda prefix, _own: processes.get(prefix))
    node.subscribers = [A]
    assert watch.update() == {A}
    ended.add(processes.pop(A))
    assert watch.is_lost(watch.trace(A), watch.present())


def test_clients_that_have_left_are_forgotten(watch, node):
    node.subscribers = [A, B]
    watch.update()
    node.subscribers = [B]
    watch.update()
    assert set(watch._processes) == {B}
