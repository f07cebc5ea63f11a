# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A bound on K reaches a real runtime, with drafts on disk, and never its text."""

import sys
from pathlib import Path

import pytest

from memspec_ros.config import Settings
from memspec_ros.records import DraftState, Request
from memspec_ros.runtime.runtime import MemSpecRuntime

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'ros_support'))

from tiny_model import write_tiny_model

REASON = 'memory pressure: 90 MB available, less than 128'


@pytest.fixture
def runtime(tmp_path):
    opened = MemSpecRuntime.open(Settings.from_parameters(
        {**write_tiny_model(tmp_path), 'runtime.cache_capacity': 3,
         'runtime.scheduling_interval': 1}))
    yield opened
    opened.close()


def ask(runtime, on_progress=lambda _: None):
    return runtime.generate(runtime.prepare(Request(prompt='hello robot', max_tokens=80)),
                            on_progress=on_progress).text


def num_in_memory(runtime):
    return sum(draft.state in (DraftState.RESIDENT, DraftState.ACTIVE)
               for draft in runtime.residency().drafts)


def test_while_no_goal_runs(runtime):
    text = ask(runtime)
    runtime.limit_capacity(1, REASON)
    runtime.relieve()
    residency = runtime.residency()
    assert (residency.cache_capacity, residency.capacity_reason) == (1, REASON)
    assert num_in_memory(runtime) <= 1
    assert ask(runtime) == text
    runtime.limit_capacity(None, '')
    runtime.relieve()
    assert runtime.residency().cache_capacity == 3
    assert ask(runtime) == text


def test_while_a_goal_runs(runtime):
    text, seen = ask(runtime), []

    def shorten(_progress):
        if not seen:
            runtime.limit_capacity(1, REASON)
        seen.append(runtime.residency().cache_capacity)

    assert ask(runtime, shorten) == text
    assert seen[-1] == runtime.residency().cache_capacity == 1
    assert num_in_memory(runtime) <= 1
