# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The target's embedding table as drafts borrow it: floats, or as the native decoder has it."""

from __future__ import annotations

import torch

from memspec_ros.models.native_matrix import PackedMatrix

Embedding = torch.Tensor | PackedMatrix
"""[vocab, hidden]; a packed one costs nothing, for it is the target's own."""


def embedding_rows(table: Embedding, tokens: torch.Tensor) -> torch.Tensor:
    """Return the rows of ``tokens``: [..., hidden]; float32 when the table is packed."""
    if isinstance(table, torch.Tensor):
        return table[tokens]
    return table.some_rows(tokens.flatten().tolist()).view(*tokens.shape, -1)


def num_rows(table: Embedding) -> int:
    """Return how many tokens the table has."""
    return len(table) if isinstance(table, torch.Tensor) else table.rows
