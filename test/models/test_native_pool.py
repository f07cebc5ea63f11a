# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The native threads: they sleep when there is nothing to do, and serve one call at a time."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
import torch
from native_checkpoints import random_grouped

from memspec_ros.errors import ModelError
from memspec_ros.models import native_library
from memspec_ros.models.native_matrix import GrowingStorage, pack
from memspec_ros.models.native_pool import NativePool, shared_pool

pytestmark = pytest.mark.skipif(not native_library.is_available(),
                                reason='the native library is not built')

DEADLINE_S = 20.0


def make_product(rows: int = 512):
    torch.manual_seed(3)
    matrix = pack(random_grouped(rows, 256, num_bits=4, group=32, minima='stored'),
                  GrowingStorage())
    return matrix, torch.randn(4, 256)


def running_threads() -> set[str]:
    """Return threads of this process, other than the calling one, that want a core."""
    tasks = {path.name: (path / 'stat').read_text() for path in Path('/proc/self/task').iterdir()}
    own = str(threading.get_native_id())
    return {name for name, stat in tasks.items()
            if name != own and stat.rpartition(')')[2].split()[0] == 'R'}


@pytest.mark.skipif(not Path('/proc/self/task').is_dir(), reason='needs /proc')
def test_threads_sleep_soon_after_a_call():
    before = set(os.listdir('/proc/self/task'))
    pool = NativePool(3)
    workers = set(os.listdir('/proc/self/task')) - before
    assert len(workers) == 2
    pool.linear(*make_product())
    deadline = time.monotonic() + DEADLINE_S
    while workers & running_threads():
        assert time.monotonic() < deadline, 'a thread of the pool still spins'


@pytest.mark.skipif(not Path('/proc/self/task').is_dir(), reason='needs /proc')
def test_threads_end_with_their_pool():
    before = set(os.listdir('/proc/self/task'))
    pool = NativePool(4)
    pool.linear(*make_product())
    del pool
    assert set(os.listdir('/proc/self/task')) <= before


def test_sleeping_threads_wake_for_the_next_call():
    pool = NativePool(2)
    matrix, inputs = make_product()
    expected = shared_pool(1).linear(matrix, inputs)
    for pause_s in (0.0, 0.002, 0.0, 0.005):
        threading.Event().wait(pause_s)
        assert torch.equal(pool.linear(matrix, inputs), expected)


def test_a_pool_serves_one_call_at_a_time():
    pool = NativePool(2)
    matrix, inputs = make_product(rows=4096)
    expected = pool.linear(matrix, inputs)
    outcomes: list[object] = []

    def call() -> None:
        for _ in range(20):
            try:
                outcomes.append(torch.equal(pool.linear(matrix, inputs), expected))
            except ModelError as error:
                outcomes.append(str(error))

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 60
    refusals = {outcome for outcome in outcomes if outcome is not True}
    assert refusals <= {'the native decoder failed on a matrix product: its threads are in use '
                        'by another call'}
    assert torch.equal(pool.linear(matrix, inputs), expected)
