# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes of a file, changed in the ways in which files break, or are made to break a reader."""

import struct

from hypothesis import strategies as st

HUGE = tuple(struct.pack('<Q', value) for value in (
    0, 1, 2**31, 2**32 - 1, 2**48, 2**62, 2**63, 2**64 - 1))
WORDS = (b'', b'\0', b'\xff' * 8, b'{', b'"', b'&a [*a]', b'!!', b': ', b'\n- ', b'9' * 30,
         b'1e999', b'null', b'GGUF', b'../..')


@st.composite
def mutations(draw, original):
    """A file with one to four changes, most of them in its header, where readers may err."""
    data = bytearray(original)
    for _ in range(draw(st.integers(1, 4))):
        header = min(len(data), 600)
        last = max(0, (header if draw(st.integers(0, 3)) else len(data)) - 1)
        at = draw(st.integers(0, last))
        _change(data, at, draw(st.sampled_from(CHANGES)), draw)
    return bytes(data)


def _flip(data, at, draw):
    if data:
        data[at] ^= 1 << draw(st.integers(0, 7))


def _byte(data, at, draw):
    if data:
        data[at] = draw(st.integers(0, 255))


def _length(data, at, draw):
    value = draw(st.sampled_from(HUGE))
    data[at:at + 8] = value


def _truncate(data, at, _draw):
    del data[at:]


def _insert(data, at, draw):
    data[at:at] = draw(st.sampled_from(WORDS))


def _remove(data, at, draw):
    del data[at:at + draw(st.integers(1, 64))]


def _repeat(data, at, draw):
    piece = bytes(data[at:at + draw(st.integers(1, 64))])
    data[at:at] = piece * draw(st.integers(1, 20))


CHANGES = (_flip, _byte, _length, _truncate, _insert, _remove, _repeat)


def _change(data, at, change, draw):
    change(data, min(at, max(0, len(data) - 1)), draw)
