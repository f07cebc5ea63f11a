# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What memory the machine has, and what this process holds of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

MEMINFO = Path('/proc/meminfo')
STATM = Path('/proc/self/statm')
CGROUP = Path('/sys/fs/cgroup')


@dataclass(frozen=True, kw_only=True)
class Available:
    """Bytes that can be had now.

    :param host_bytes: MemAvailable, or less where a container may have less.
    :param device_bytes: free memory of the GPU; None without one, and where CPU and GPU share
        one memory (Jetson), because what a GPU calls free leaves the page cache out there.
    :param stated: they were not measured, but stated for a machine that this is not.
    """

    host_bytes: int
    device_bytes: int | None = None
    stated: bool = False


def available(device: str = 'cpu') -> Available:
    """Return what can be had now, for models on ``cpu`` or ``cuda``."""
    if device == 'cpu' or shares_memory():
        return Available(host_bytes=available_bytes())
    import torch  # here: the node watches memory before torch has been imported
    free_bytes, _ = torch.cuda.mem_get_info()
    return Available(host_bytes=available_bytes(), device_bytes=free_bytes)


def available_bytes(meminfo: Path | None = None) -> int:
    """Return MemAvailable, or what the container's limit leaves if that is less.

    :param meminfo: the kernel's file; of another than this process's own there is no limit.
    :raises OSError: no such file, or no such figure in it.
    """
    own = meminfo is None or meminfo == MEMINFO
    limit = _cgroup_room_bytes() if own else None
    free = _meminfo_bytes(meminfo or MEMINFO, 'MemAvailable')
    return free if limit is None else min(free, limit)


def rss_bytes() -> int:
    """Return the resident memory of this process."""
    pages = int(STATM.read_text(encoding='ascii').split()[1])
    return pages * os.sysconf('SC_PAGE_SIZE')


def shares_memory() -> bool:
    """Whether CPU and GPU share one memory, as on a Jetson."""
    import torch
    if not torch.cuda.is_available():
        return False
    return bool(getattr(torch.cuda.get_device_properties(0), 'is_integrated', 0)) \
        or Path('/etc/nv_tegra_release').exists()


def _meminfo_bytes(meminfo: Path, key: str) -> int:
    for line in meminfo.read_text(encoding='ascii').splitlines():
        name, _, value = line.partition(':')
        if name == key:
            return int(value.split()[0]) * 1024
    raise OSError(f'{meminfo} has no {key}')


def _cgroup_room_bytes() -> int | None:
    """Return what the container's limit leaves; file pages count as free, as in MemAvailable."""
    try:
        limit = (CGROUP / 'memory.max').read_text(encoding='ascii').strip()
        if limit == 'max':
            return None
        used = int((CGROUP / 'memory.current').read_text(encoding='ascii'))
        lines = (CGROUP / 'memory.stat').read_text(encoding='ascii').splitlines()
    except OSError:
        return None
    files = sum(int(line.split()[1]) for line in lines if line.startswith('inactive_file '))
    return max(0, int(limit) - used + files)
