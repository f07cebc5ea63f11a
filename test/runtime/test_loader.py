# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The loader thread with sources that wait for the test, so nothing depends on time."""

from __future__ import annotations

import os
import threading

import pytest

from memspec_ros.errors import LoadError
from memspec_ros.runtime import loader as loader_module
from memspec_ros.runtime.loader import BandwidthCap, ThreadLoader, is_out_of_memory

LIMIT_S = 10.0


class GatedSource:
    """Reads one chunk, waits for the gate, reads the next unless it was cancelled."""

    def __init__(self, error=None):
        self.error = error
        self.started = threading.Event()
        self.gate = threading.Event()
        self.slots = []
        self.num_chunks = 0

    def __call__(self, slot, *, should_cancel, throttle):
        self.slots.append(slot)
        self.num_chunks += 1
        throttle(1)
        self.started.set()
        assert self.gate.wait(LIMIT_S)
        if should_cancel():
            return
        if self.error:
            raise self.error
        self.num_chunks += 1


@pytest.fixture
def make_loader():
    loaders = []

    def make(**sources):
        loaders.append(ThreadLoader(sources))
        return loaders[-1]

    yield make
    for loader in loaders:
        assert loader.shutdown(LIMIT_S)


def test_a_load_ends_with_an_event(make_loader):
    source = GatedSource()
    loader = make_loader(code=source)
    loader.start('code', 1)
    assert source.started.wait(LIMIT_S)
    assert loader.poll() == []
    assert loader.is_reading
    source.gate.set()
    event = loader.wait()
    assert not loader.is_reading
    assert (event.draft, event.slot, event.error, event.cancelled) == ('code', 1, '', False)
    assert event.seconds >= 0.0
    assert source.num_chunks == 2


@pytest.mark.skipif(not hasattr(os, 'PRIO_PROCESS'), reason='no priorities of threads')
def test_decoding_has_the_processors_first(make_loader):
    niceness = []

    def source(*_, **__):
        niceness.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    loader = make_loader(a=source)
    loader.start('a', 0)
    loader.wait()
    assert niceness == [min(19, os.nice(0) + loader_module.NICENESS)]


def test_loads_run_one_after_the_other(make_loader):
    first, second = GatedSource(), GatedSource()
    loader = make_loader(code=first, math=second)
    loader.start('code', 0)
    loader.start('math', 1)
    assert first.started.wait(LIMIT_S)
    assert not second.started.is_set()
    first.gate.set()
    second.gate.set()
    assert [loader.wait().draft, loader.wait().draft] == ['code', 'math']


def test_a_cancelled_load_stops_at_its_next_chunk(make_loader):
    source = GatedSource()
    loader = make_loader(code=source)
    loader.start('code', 0)
    assert source.started.wait(LIMIT_S)
    loader.cancel('code')
    source.gate.set()
    event = loader.wait()
    assert event.cancelled
    assert event.error == ''
    assert source.num_chunks == 1


def test_a_load_cancelled_before_its_turn_reads_nothing(make_loader):
    first, second = GatedSource(), GatedSource()
    loader = make_loader(code=first, math=second)
    loader.start('code', 0)
    loader.start('math', 1)
    loader.cancel('math')
    first.gate.set()
    assert [loader.wait().cancelled, loader.wait().cancelled] == [False, True]
    assert second.num_chunks == 0


def test_a_throttled_load_is_cancelled_in_its_wait(make_loader):
    """At one byte an hour, only the cancel ends the wait."""
    source = GatedSource()
    source.gate.set()
    loader = make_loader(code=source)
    loader.set_bandwidth(1e-6 / 3600)
    loader.start('code', 0)
    loader.cancel('code')
    assert loader.wait().cancelled


@pytest.mark.parametrize(('error', 'message', 'out_of_memory'), [
    (LoadError('code.safetensors: checksum differs'), 'code.safetensors: checksum differs', False),
    (FileNotFoundError(2, 'No such file', '/pool/code'), "[Errno 2] No such file: '/pool/code'",
     False),
    (MemoryError('no bytes'), 'MemoryError: no bytes', True),
    (RuntimeError('NVML_SUCCESS == r INTERNAL ASSERT FAILED'),
     'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED', True),
    (KeyError('odd'), "KeyError: 'odd'", False),
])
def test_what_goes_wrong_is_told_in_the_event(make_loader, error, message, out_of_memory):
    source = GatedSource(error)
    source.gate.set()
    loader = make_loader(code=source)
    loader.start('code', 0)
    event = loader.wait()
    assert (event.error, event.out_of_memory) == (message, out_of_memory)
    loader.start('code', 0)
    assert loader.wait().error == message


def test_waiting_for_nothing_is_an_error(make_loader):
    with pytest.raises(LoadError, match='no load is in flight'):
        make_loader().wait()


def test_shutdown_cancels_what_is_in_flight(make_loader):
    source = GatedSource()
    loader = make_loader(code=source)
    loader.start('code', 0)
    assert source.started.wait(LIMIT_S)
    source.gate.set()
    assert loader.shutdown(LIMIT_S)
    with pytest.raises(LoadError, match="shut down; draft 'code'"):
        loader.start('code', 0)


def test_shutdown_tells_when_a_source_does_not_end():
    source = GatedSource()
    loader = ThreadLoader({'code': source})
    loader.start('code', 0)
    assert source.started.wait(LIMIT_S)
    assert not loader.shutdown(0.0)
    source.gate.set()
    assert loader.shutdown(LIMIT_S)


def test_the_cap_holds_the_rate_and_does_not_save_up():
    cap = BandwidthCap(100.0)
    assert cap.delay_s(50, now_s=0.0) == pytest.approx(0.5)
    assert cap.delay_s(50, now_s=0.5) == pytest.approx(0.5)
    assert cap.delay_s(50, now_s=0.6) == pytest.approx(0.9)
    assert cap.delay_s(50, now_s=100.0) == pytest.approx(0.5)
    cap.bytes_per_s = 0.0
    assert cap.delay_s(50, now_s=100.0) == 0.0


def test_out_of_memory_is_told_from_other_errors():
    assert is_out_of_memory(RuntimeError('CUDA out of memory. Tried to allocate 2 GiB'))
    assert is_out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate "
                                         'memory: you tried to allocate 9 bytes'))
    assert not is_out_of_memory(RuntimeError('shape mismatch'))
    assert not is_out_of_memory(ValueError('out of memory'))


def test_a_load_that_stands_still_is_told_and_goes_on(monkeypatch):
    monkeypatch.setattr(loader_module, 'STALL_S', 0.0)
    monkeypatch.setattr(loader_module, 'STALL_POLL_S', 0.001)
    source = GatedSource()
    loader = ThreadLoader({'code': source})
    loader.start('code', 0)
    assert source.started.wait(LIMIT_S)
    for _ in range(2):
        with pytest.raises(LoadError, match='stalled: nothing was read for 0 s'):
            loader.wait()
    source.gate.set()
    monkeypatch.setattr(loader_module, 'STALL_S', LIMIT_S)
    assert loader.wait().draft == 'code'
    assert loader.shutdown()


def test_a_bandwidth_cap_is_no_stall(monkeypatch):
    monkeypatch.setattr(loader_module, 'STALL_S', 0.05)
    monkeypatch.setattr(loader_module, 'STALL_POLL_S', 0.001)

    def slow(_slot, *, should_cancel, throttle):
        assert not should_cancel()
        throttle(3)

    # One chunk takes six times as long as what would be a stall.
    loader = ThreadLoader({'code': slow}, load_bandwidth_mb_s=10e-6)
    loader.start('code', 0)
    assert loader.wait().error == ''
    assert loader.shutdown()
