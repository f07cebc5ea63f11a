# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Freed memory goes back to the system."""

import ctypes

import pytest

from memspec_ros.models.heap import trim_heap
from memspec_ros.runtime.memory import rss_bytes

MB = 1 << 20


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), 'malloc_trim'), reason='not the GNU C library')
def test_what_was_freed_is_given_back():
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    pieces = [library.malloc(64 << 10) for _ in range(2000)]
    for piece in pieces:
        ctypes.memset(piece, 1, 64 << 10)
    for piece in pieces[:-1]:  # the last one keeps the heap's end where it is
        library.free(piece)
    before = rss_bytes()
    trim_heap()
    assert before - rss_bytes() > 100 * MB
    library.free(pieces[-1])


def test_without_such_a_call_nothing_happens(monkeypatch):
    monkeypatch.setattr('memspec_ros.models.heap.ctypes.CDLL', lambda _: object())
    trim_heap()
