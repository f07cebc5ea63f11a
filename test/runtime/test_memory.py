# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the machine has: read from the kernel's files, the container's limit included."""

import mmap

import pytest

from memspec_ros.runtime import memory


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A kernel of our own, of 1000 kB available, without a limit."""
    (tmp_path / 'meminfo').write_text('MemTotal:  2000 kB\nMemFree:  10 kB\n'
                                      'MemAvailable:   1000 kB\n')
    monkeypatch.setattr(memory, 'MEMINFO', tmp_path / 'meminfo')
    monkeypatch.setattr(memory, 'CGROUP', tmp_path)
    return tmp_path


def set_limit(kernel, limit, used, inactive_files):
    (kernel / 'memory.max').write_text(f'{limit}\n')
    (kernel / 'memory.current').write_text(f'{used}\n')
    (kernel / 'memory.stat').write_text(f'anon 7\ninactive_file {inactive_files}\n')


def test_available_memory_counts_the_page_cache(kernel):
    assert memory.available_bytes() == 1000 * 1024
    set_limit(kernel, 'max', 5, 0)
    assert memory.available_bytes() == 1000 * 1024


@pytest.mark.parametrize(('limit', 'expected'), [
    (500_000, 500_000 - 90_000 + 40_000), (50_000, 0), (10**9, 1000 * 1024)])
def test_a_container_may_have_less(kernel, limit, expected):
    set_limit(kernel, limit, 90_000, 40_000)
    assert memory.available_bytes() == expected


def test_a_kernel_without_the_figure_is_told(kernel):
    (kernel / 'meminfo').write_text('MemFree: 10 kB\n')
    with pytest.raises(OSError, match='meminfo has no MemAvailable'):
        memory.available_bytes()


def test_this_machine_and_process():
    assert 0 < memory.available_bytes() < 2**50
    # A mapping of its own: what the heap gives back may stay with the process.
    held = mmap.mmap(-1, 64 << 20)
    for page in range(0, len(held), mmap.PAGESIZE):
        held[page] = 1
    before = memory.rss_bytes()
    held.close()
    assert before - memory.rss_bytes() > 32 << 20
    assert memory.available('cpu').device_bytes is None
