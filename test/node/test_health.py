# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The rules of the diagnostics."""

import pytest

from memspec_ros.config import MachineSettings
from memspec_ros.node import health
from memspec_ros.records import DraftState, DraftStatus, Health, Residency, Throughput
from memspec_ros.runtime import loader
from memspec_ros.runtime.memory_watch import MemoryState


@pytest.mark.parametrize(('state', 'error', 'level'), [
    ('active', '', Health.OK), ('inactive', '', Health.WARN),
    ('unconfigured', 'configure failed: no file', Health.ERROR)])
def test_lifecycle(state, error, level):
    check = health.check_lifecycle(state, error, 12.0)
    assert (check.level, check.message) == (level, error or state)


@pytest.mark.parametrize(('waiting', 'level'), [
    (0, Health.OK), (7, Health.OK), (8, Health.WARN), (9, Health.WARN), (10, Health.ERROR)])
def test_queue(waiting, level):
    check = health.check_queue(waiting, 10, 5, 1)
    assert check.level is level
    assert str(waiting) in check.message


def residency(*states):
    return Residency(drafts=tuple(
        DraftStatus(name=f'd{number}', domain='', state=state, num_bytes=1, reason='truncated')
        for number, state in enumerate(states)))


@pytest.mark.parametrize(('states', 'level'), [
    ((), Health.OK), ((DraftState.RESIDENT, DraftState.ABSENT), Health.OK),
    ((DraftState.RESIDENT, DraftState.UNAVAILABLE), Health.WARN),
    ((DraftState.UNAVAILABLE,), Health.ERROR)])
def test_drafts(states, level):
    check = health.check_drafts(residency(*states))
    assert check.level is level
    assert ('truncated' in check.message) == (level is not Health.OK)


@pytest.mark.parametrize(('acceptance', 'length', 'level'), [
    (0.5, 3.0, Health.OK), (0.05, 3.0, Health.WARN), (0.0, 0.0, Health.OK)])
def test_acceptance(acceptance, length, level):
    check = health.check_acceptance(Throughput(tokens_per_second=9.0, acceptance=acceptance,
                                               draft_length=length))
    assert check.level is level


@pytest.mark.parametrize(('available_mb', 'level'), [
    (0, Health.OK), (300, Health.OK), (200, Health.WARN), (60, Health.ERROR)])
def test_memory(available_mb, level):
    check = health.check_memory(Throughput(available_bytes=available_mb * 1_000_000), 256.0)
    assert check.level is level


@pytest.mark.parametrize(('available_mb', 'level'), [
    (0, Health.ERROR), (60, Health.ERROR), (200, Health.WARN), (300, Health.OK)])
def test_memory_as_the_watch_has_read_it(available_mb, level):
    state = MemoryState(available_bytes=available_mb * 1_000_000, stalled_percent=12.5)
    check = health.check_memory(Throughput(available_bytes=10**12), 256.0, state)
    assert check.level is level
    assert f'available: {available_mb} MB' in check.message
    assert check.values['stalled_percent'] == 12.5


def test_a_smaller_capacity_is_told_with_its_reason():
    found = Residency(drafts=residency(DraftState.RESIDENT, DraftState.ABSENT).drafts,
                      cache_capacity=1, capacity_reason='memory pressure: 90 MB')
    check = health.check_drafts(found)
    assert (check.level, check.message) == (Health.WARN, 'K is 1: memory pressure: 90 MB')
    assert check.values['cache_capacity'] == 1


def test_a_load_that_stands_still_is_told():
    draft = DraftStatus(name='code', domain='', state=DraftState.LOADING, num_bytes=1,
                        reason=f'{loader.STALLED}: nothing was read for 6 s')
    check = health.check_drafts(Residency(drafts=(draft,), cache_capacity=1))
    assert (check.level, check.message) == (Health.WARN, 'reading code has stalled')


@pytest.mark.parametrize(('celsius', 'level'), [
    (50.0, Health.OK), (85.0, Health.WARN), (94.9, Health.WARN), (95.0, Health.ERROR)])
def test_the_hottest_zone_counts(celsius, level):
    check, = health.check_temperatures({'cpu': 40.0, 'gpu': celsius}, MachineSettings())
    assert (check.level, check.message) == (level, f'gpu: {celsius:.1f} C')


def test_a_machine_without_zones_has_no_temperature():
    assert health.check_temperatures({}, MachineSettings()) == []
