# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Memory that is kept but not used: its pages go back to the machine, its addresses stay."""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Callable

import torch

# From <linux/mman.h>: the pages are dropped now, and read as zeros when they are touched again.
MADV_DONTNEED = 4


def give_back(memory: torch.Tensor) -> int:
    """Let the machine have the whole pages of a tensor on a CPU; its content is lost.

    The tensor stays allocated and keeps its address, so views stay valid; the next write takes
    pages again.

    :returns: bytes that were given back; 0 where that cannot be.
    """
    if memory.device.type != 'cpu' or memory.is_pinned() or not memory.is_contiguous():
        return 0
    num_bytes = memory.numel() * memory.element_size()
    start = -(-memory.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    stop = (memory.data_ptr() + num_bytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if stop <= start or _madvise()(start, stop - start, MADV_DONTNEED):
        return 0
    return stop - start


@functools.cache
def _madvise() -> Callable[[int, int, int], int]:
    function = ctypes.CDLL(None, use_errno=True).madvise
    function.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    call: Callable[[int, int, int], int] = function
    return call
