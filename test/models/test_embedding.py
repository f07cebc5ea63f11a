# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A borrowed table gives the same rows in either form."""

import pytest
import torch

from memspec_ros.errors import ModelError
from memspec_ros.models import native_library
from memspec_ros.models.embedding import embedding_rows, num_rows
from memspec_ros.models.matrices import DenseMatrix
from memspec_ros.models.native_matrix import GrowingStorage, pack

TABLE = torch.randn(37, 32, generator=torch.Generator().manual_seed(0))
TOKENS = torch.tensor([[0, 36, 5], [5, 17, 1]])
needs_library = pytest.mark.skipif(not native_library.is_available(),
                                   reason='the native library is not built')


def packed():
    return pack(DenseMatrix(data=TABLE), GrowingStorage())


def test_floats_are_indexed():
    assert torch.equal(embedding_rows(TABLE, TOKENS), TABLE[TOKENS])
    assert num_rows(TABLE) == 37


@needs_library
def test_packed_rows_are_the_same():
    assert torch.equal(embedding_rows(packed(), TOKENS), TABLE[TOKENS])
    assert torch.equal(embedding_rows(packed(), TOKENS[0]), TABLE[TOKENS[0]])
    assert num_rows(packed()) == 37


@needs_library
def test_a_token_beyond_the_table_is_refused():
    with pytest.raises(ModelError, match='row 37 of a matrix of 37'):
        embedding_rows(packed(), torch.tensor([37]))
