# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Who a DDS participant is: what its GUID prefix says about the process behind it.

Fast DDS builds the prefix (12 bytes) from its vendor id (01 0f), a host id (2 bytes), the low half
of the process id (2 bytes), a random number (2) and a counter (4); found by looking at the GUIDs
of known processes. Other vendors' prefixes are opaque, and then only the graph tells who is there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

PREFIX_BYTES = 12
GUID_BYTES = 16
SEQUENCE_BYTES = 8
FAST_DDS_VENDOR = b'\x01\x0f'
MAX_PID = 1 << 22
# An instance of a pybind11 type: the object's header, then a pointer to the C++ value.
VALUE_POINTER_OFFSET = object.__basicsize__


class Process(NamedTuple):
    """A process of this machine; the start time tells it from a later one of the same id."""

    pid: int
    start_ticks: str


def client_prefix(request_header: Any) -> bytes | None:
    """Return the GUID prefix of the client that sent a request.

    rclpy has it in the header that it takes with each request, but shows only the sequence number;
    so it is read from the C struct (rmw_request_id_t: 16 bytes GUID, 8 bytes sequence number).
    Reading through /proc cannot crash on a wrong address, and the sequence number must agree.

    :returns: None when the struct is not where it is expected.
    """
    if sys.implementation.name != 'cpython' or not hasattr(request_header, 'sequence_number'):
        return None
    pointer = _read_memory(id(request_header) + VALUE_POINTER_OFFSET,
                           ctypes.sizeof(ctypes.c_void_p))
    value = _read_memory(int.from_bytes(pointer, sys.byteorder), GUID_BYTES + SEQUENCE_BYTES)
    sequence_number = int.from_bytes(value[GUID_BYTES:], sys.byteorder, signed=True)
    if len(value) < GUID_BYTES or sequence_number != request_header.sequence_number:
        return None
    return value[:PREFIX_BYTES]


def _read_memory(address: int, num_bytes: int) -> bytes:
    with contextlib.suppress(OSError, OverflowError), \
            open('/proc/self/mem', 'rb', buffering=0) as memory:
        return os.pread(memory.fileno(), num_bytes, address)
    return b''


def find_process(prefix: bytes, own_prefix: bytes) -> Process | None:
    """Return the process of this machine that a prefix names.

    :param own_prefix: of this node, for the host id.
    :returns: None when it cannot be told: another machine or vendor, another PID namespace, or
        several candidates.
    """
    if prefix[:4] != own_prefix[:4] or prefix[:2] != FAST_DDS_VENDOR:
        return None
    low = int.from_bytes(prefix[4:6], 'little')
    found = [process for pid in range(low, MAX_PID, 1 << 16)
             if pid and (process := read_process(pid)) is not None and _maps_fast_dds(pid)]
    return found[0] if len(found) == 1 else None


def read_process(pid: int) -> Process | None:
    """Return a process that runs; None for one that has ended, reaped or not."""
    try:
        stat = Path(f'/proc/{pid}/stat').read_text(encoding='utf-8', errors='replace')
    except OSError:
        return None
    # The name in brackets may hold anything; after it: state, ..., start time (field 22).
    fields = stat.rpartition(')')[2].split()
    return None if fields[0] in 'ZX' else Process(pid, fields[19])


def has_ended(process: Process) -> bool:
    """Whether a process is gone, or another has its id now."""
    return read_process(process.pid) != process


def _maps_fast_dds(pid: int) -> bool:
    """Whether a process can be a client at all; an id alone may be that of any program."""
    try:
        maps = Path(f'/proc/{pid}/maps').read_bytes()
    except OSError:
        return False
    return b'fastrtps' in maps or b'fastdds' in maps
