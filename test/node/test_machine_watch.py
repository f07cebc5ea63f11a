# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""K follows the machine's memory, whether a goal runs or not."""

import dataclasses

import pytest

from memspec_ros.config import Settings
from memspec_ros.node.machine_watch import MachineWatch
from memspec_ros.testing.fake_runtime import FakeRuntime, FakeScript


class Watched:
    def __init__(self, folder, node, clock):
        self.folder, self.clock, self.node = folder, clock, node
        self.idle = []
        self.runtime = FakeRuntime(FakeScript(), Settings())
        self.watch = MachineWatch(node.get_logger(), run_idle=self.idle.append, clock=clock)
        self.settings = Settings.from_parameters({'machine.proc_folder': str(folder),
                                                  'machine.hold_s': 5.0})

    def see(self, available_mb):
        (self.folder / 'meminfo').write_text(f'MemAvailable: {available_mb * 1000} kB\n')
        self.watch.update(self.runtime, self.settings)
        for work in self.idle:
            work()
        self.idle.clear()
        return self.runtime.residency()


@pytest.fixture
def watched(tmp_path, node, clock):
    return Watched(tmp_path, node, clock)


def test_short_memory_bounds_k_and_ample_memory_lifts_the_bound(watched):
    assert watched.see(1000).cache_capacity == 2
    short = watched.see(50)
    assert short.cache_capacity == 1
    assert short.capacity_reason == 'memory pressure: 51 MB available, less than 128'
    assert watched.node.log.lines == [f'warning: K is at most 1: {short.capacity_reason}']
    watched.see(1000)
    watched.clock.now_s += 6.0
    ample = watched.see(1000)
    assert (ample.cache_capacity, ample.capacity_reason) == (2, '')
    assert watched.node.log.lines[1:] == ['info: K is 2 again: memory suffices']


def test_without_a_runtime_memory_is_read_for_diagnostics_only(watched):
    watched.runtime = None
    (watched.folder / 'meminfo').write_text('MemAvailable: 1 kB\n')
    watched.watch.update(None, watched.settings)
    assert watched.watch.memory.available_bytes == 1024
    assert watched.idle == []


def test_a_procfs_that_cannot_be_read_is_told_once(watched):
    for _ in range(3):
        watched.watch.update(watched.runtime, watched.settings)
    assert watched.watch.memory is None
    assert len(watched.node.log.lines) == 1
    assert 'memory is not watched: ' in watched.node.log.lines[0]
    assert watched.see(50).cache_capacity == 1


def test_another_runtime_begins_without_a_bound(watched):
    watched.see(50)
    watched.watch.forget()
    watched.runtime = FakeRuntime(FakeScript(), Settings())
    assert watched.see(1000).cache_capacity == 2


def test_drafts_on_a_gpu_stay_where_they_are(watched, monkeypatch):
    info = dataclasses.replace(watched.runtime.info(), device='cuda (Orin)')
    monkeypatch.setattr(watched.runtime, 'info', lambda: info)
    assert watched.see(50).cache_capacity == 2
    assert watched.watch.memory.available_bytes == 51_200_000
    assert watched.node.log.lines == []
