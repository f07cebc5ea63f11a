# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Block formats of GGUF tensors against the gguf package."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gguf import GGUFReader
from gguf.quants import dequantize

from memspec_ros.models.gguf_file import GgufFile, gguf_name
from memspec_ros.models.matrices import DenseMatrix, GroupedMatrix
from memspec_ros.testing.model_files import write_gguf
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, tiny_config

CONFIG = tiny_config(vocab_size=264)
DOWN = 'model.layers.1.mlp.down_proj.weight'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'm.gguf'


@pytest.mark.parametrize(('kind', 'form', 'num_bits'), [
    ('Q4_0', GroupedMatrix, 4), ('Q4_1', GroupedMatrix, 4), ('Q8_0', GroupedMatrix, 8),
    ('F32', DenseMatrix, 0), ('F16', DenseMatrix, 0), ('BF16', DenseMatrix, 0),
    ('Q5_1', DenseMatrix, 0)])
def test_values_are_those_of_the_gguf_package(path: Path, kind: str, form: type,
                                              num_bits: int) -> None:
    write_gguf(path, RandomCheckpoint(CONFIG), kind=kind)
    matrix = GgufFile(path).matrix(DOWN)
    stored = next(t for t in GGUFReader(path).tensors if t.name == gguf_name(DOWN))
    expected = torch.from_numpy(dequantize(stored.data, stored.tensor_type).copy())
    assert isinstance(matrix, form)
    assert getattr(matrix, 'num_bits', 0) == num_bits
    assert torch.equal(matrix.values(), expected.view(64, 96))
