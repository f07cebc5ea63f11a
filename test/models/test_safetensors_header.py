# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Headers of safetensors files: real ones are read, damaged ones refused before allocation."""

import json

import pytest
import torch
from safetensors.torch import save_file

from memspec_ros.errors import ModelFormatError, ModelNotFoundError
from memspec_ros.models.safetensors_header import MAX_HEADER_BYTES, read_header

TENSOR = {'dtype': 'F32', 'shape': [2, 2], 'data_offsets': [0, 16]}


def write_raw(path, document, data=bytes(16)):
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    path.write_bytes(len(text).to_bytes(8, 'little') + text + data)
    return path


def test_agrees_with_the_safetensors_library(tmp_path):
    path = tmp_path / 'a.safetensors'
    tensors = {'w': torch.arange(6.0).view(2, 3), 'b': torch.ones(5, dtype=torch.bfloat16),
               'ids': torch.arange(3, dtype=torch.int32)}
    save_file(tensors, path, metadata={'note': 'x'})
    header = read_header(path)
    data = path.read_bytes()
    assert header.metadata == {'note': 'x'}
    for name, tensor in tensors.items():
        entry = header[name]
        assert (entry.dtype, entry.shape) == (tensor.dtype, tuple(tensor.shape))
        stored = torch.frombuffer(bytearray(data[entry.start:entry.stop]), dtype=entry.dtype)
        assert torch.equal(stored.view(tensor.shape), tensor)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ModelNotFoundError, match=r'no file .*gone\.safetensors'):
        read_header(tmp_path / 'gone.safetensors')


def test_truncated_file_says_both_sizes(tmp_path):
    path = write_raw(tmp_path / 'a', {'w': TENSOR}, bytes(15))
    with pytest.raises(ModelFormatError, match=r'has \d+ bytes; its header describes \d+'):
        read_header(path)


def test_header_length_is_bounded_before_reading(tmp_path):
    path = tmp_path / 'a'
    path.write_bytes((2**62).to_bytes(8, 'little') + b'{}')
    with pytest.raises(ModelFormatError, match=f'header of {2**62} bytes; at most 2 are'):
        read_header(path)
    with open(path, 'r+b') as file:
        file.truncate(MAX_HEADER_BYTES + 100)
    with pytest.raises(ModelFormatError, match=f'at most {MAX_HEADER_BYTES} are possible'):
        read_header(path)


@pytest.mark.parametrize(('change', 'message'), [
    ({'dtype': 'F7'}, "dtype 'F7'; known are F64"),
    ({'shape': [2, -2]}, 'shape must be at most 8 non-negative integers'),
    ({'shape': [2, True]}, 'shape must be at most'),
    ({'shape': [2**50]}, 'shape must be at most'),
    ({'shape': 4}, 'shape must be at most'),
    ({'shape': [2, 3]}, r'shape \[2, 3\] takes 24 bytes; its data_offsets are \[0, 16\]'),
    ({'data_offsets': [16, 0]}, 'data_offsets are'),
    ({'data_offsets': [0, 16, 32]}, 'data_offsets must be'),
    ({'data_offsets': [4, 20]}, r"'w' starts at byte \d+; \d+ was expected"),
])
def test_contradictions_are_refused(tmp_path, change, message):
    with pytest.raises(ModelFormatError, match=message):
        read_header(write_raw(tmp_path / 'a', {'w': {**TENSOR, **change}}))


@pytest.mark.parametrize(('document', 'message'), [
    (b'{', 'header is not JSON'),
    (b'[' * 100_000, 'header is not JSON'),
    (b'\xff\xfe', 'header is not JSON'),
    ([], 'a JSON list; it must be an object'),
    ({'w': [1]}, 'needs dtype, shape and data_offsets'),
    ({'__metadata__': {'a': 1}}, '__metadata__ must map names to strings'),
])
def test_what_is_no_header_is_refused(tmp_path, document, message):
    with pytest.raises(ModelFormatError, match=message):
        read_header(write_raw(tmp_path / 'a', document))


def test_empty_file_is_refused(tmp_path):
    path = tmp_path / 'a'
    path.touch()
    with pytest.raises(ModelFormatError, match='has 0 bytes; a safetensors file has at least 8'):
        read_header(path)
