# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The rules of the diagnostics."""

import pytest

from memspec_ros.node import health
from memspec_ros.records import DraftState, DraftStatus, Health, Residency, Throughput


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
