# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""GGUF headers, whole and damaged: every count is checked before anything is allocated."""

from __future__ import annotations

import random
import struct
import tracemalloc
from pathlib import Path

import pytest
from gguf import GGUFReader

from memspec_ros.errors import ModelError, ModelFormatError, ModelNotFoundError
from memspec_ros.models.gguf_file import GgufFile
from memspec_ros.models.gguf_header import read_header
from memspec_ros.testing.model_files import write_gguf
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, tiny_config

LIMIT_BYTES = 20 << 20


@pytest.fixture(scope='module')
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp('gguf') / 'tiny.gguf'
    write_gguf(path, RandomCheckpoint(tiny_config(vocab_size=264, num_layers=1)), kind='Q4_1',
               head_kind='Q8_0')
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'm.gguf'


def text(value: str) -> bytes:
    return struct.pack('<Q', len(value)) + value.encode()


def header(num_tensors: int = 0, entries: bytes = b'', num_entries: int = 0,
           version: int = 3) -> bytes:
    return b'GGUF' + struct.pack('<IQQ', version, num_tensors, num_entries) + entries


def refuse(path: Path, raw: bytes, message: str) -> None:
    path.write_bytes(raw)
    with pytest.raises(ModelFormatError, match=f'm.gguf.*{message}'):
        read_header(path)


def test_equals_the_gguf_package(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    ours, theirs = read_header(path), GGUFReader(path)
    assert ours.metadata == {name: field.contents() for name, field in theirs.fields.items()
                             if not name.startswith('GGUF.')}
    assert {name: (info.shape, info.kind, info.offset, info.num_bytes)
            for name, info in ours.tensors.items()} == {
        t.name: (tuple(reversed(t.shape.tolist())), t.tensor_type, t.data_offset, t.n_bytes)
        for t in theirs.tensors}


def test_missing_file(path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r'm\.gguf does not exist'):
        read_header(path)


def test_every_truncation_is_told(path: Path, data: bytes) -> None:
    header_bytes = read_bytes_of_header(path, data)
    cuts = {0, 1, 4, 8, 23, 24, *range(25, header_bytes, 97), header_bytes,
            *range(header_bytes, len(data), 4001), len(data) - 1}
    for cut in sorted(cuts):
        path.write_bytes(data[:cut])
        with pytest.raises(ModelFormatError, match=r'm\.gguf: .*(truncated|but only|magic)'):
            read_header(path)


def read_bytes_of_header(path: Path, data: bytes) -> int:
    path.write_bytes(data)
    return min(info.offset for info in read_header(path).tensors.values())


def test_random_damage_never_leaks_another_error(path: Path, data: bytes) -> None:
    draw = random.Random(1)
    header_bytes = read_bytes_of_header(path, data)
    messages = []
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(draw.choice([1, 1, 4])):
            damaged[draw.randrange(header_bytes)] = draw.choice([0, 1, 127, 128, 255])
        path.write_bytes(damaged)
        try:
            file = GgufFile(path)
            file.load_tokenizer()
            file.matrix('model.layers.0.mlp.down_proj.weight')
        except ModelError as error:
            messages.append(str(error))
    assert len(messages) > 50
    assert [message for message in messages if 'm.gguf' not in message] == []


def test_huge_counts_allocate_nothing(path: Path) -> None:
    huge = 1 << 60
    array = text('a') + struct.pack('<IIQ', 9, 4, huge)
    strings = text('a') + struct.pack('<IIQ', 9, 8, huge)
    tracemalloc.start()
    try:
        refuse(path, header(num_tensors=huge), 'claims .* tensors')
        refuse(path, header(num_entries=huge), 'claims .* metadata entries')
        refuse(path, header(num_entries=1, entries=array), "claims .* items of 'a'")
        refuse(path, header(num_entries=1, entries=strings), "claims .* strings of 'a'")
        refuse(path, header(num_entries=1, entries=struct.pack('<Q', huge) + b'0' * 16),
               'a metadata key .* needs')
        assert tracemalloc.get_traced_memory()[1] < LIMIT_BYTES
    finally:
        tracemalloc.stop()


def tensor(name: str = 't', dimensions: tuple[int, ...] = (32, 2), kind: int = 0,
           offset: int = 0) -> bytes:
    return text(name) + struct.pack(f'<I{len(dimensions)}QIQ', len(dimensions), *dimensions,
                                    kind, offset)


@pytest.mark.parametrize(('raw', 'message'), [
    (b'GGML' + bytes(40), "starts with b'GGML', expected b'GGUF'"),
    (header(version=1), 'version is 1, expected 2 or 3'),
    (b'GGUF' + struct.pack('>I', 3) + bytes(30), r'expected 2 or 3 \(little-endian\)'),
    (header(num_entries=1, entries=text('k') + struct.pack('<II', 77, 0)),
     "'k' has value type 77, expected 0 to 12"),
    (header(num_entries=1, entries=text('k') + struct.pack('<IIQ', 9, 9, 1)), 'array of arrays'),
    (header(num_entries=2, entries=2 * (text('k') + struct.pack('<IQ', 4, 1))[:17] + bytes(9)),
     'occurs twice'),
    (header(num_entries=1, entries=struct.pack('<Q', 2) + b'\xff\xfe' + bytes(9)), 'not UTF-8'),
    (header(num_tensors=1, entries=tensor(dimensions=(1,) * 5)), '5 dimensions, expected 1 to 4'),
    (header(num_tensors=1, entries=tensor(kind=99) + bytes(600)), 'unknown type 99'),
    (header(num_tensors=1, entries=tensor(dimensions=(33, 1), kind=3) + bytes(600)),
     'expected rows of a multiple of 32 for Q4_1'),
    (header(num_tensors=1, entries=tensor(dimensions=(32, 0)) + bytes(600)), r'shape \[0, 32\]'),
    (header(num_tensors=1, entries=tensor(offset=1 << 40) + bytes(600)), 'ends at byte'),
    (header(num_tensors=1, entries=tensor(dimensions=(1 << 30, 1 << 30)) + bytes(600)),
     'ends at byte'),
    (header(num_tensors=2, entries=2 * tensor() + bytes(900)), "tensor 't' occurs twice"),
    (header(num_entries=1, entries=text('general.alignment') + struct.pack('<II', 4, 3)),
     'alignment is 3, expected a power of two')])
def test_contradictions(path: Path, raw: bytes, message: str) -> None:
    refuse(path, raw, message)
