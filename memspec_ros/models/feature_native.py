# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A feature-conditioned draft's matrices in 8 bits, for the native library.

One proposal is a dozen products with one vector: all time goes into reading matrices. In 8 bits
that is a quarter of the bytes, and the library's kernels take an eighth of PyTorch's time for
them. Rows of a draft file that is stored in 8 bits keep their very codes.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from memspec_ros.models import native_library as native
from memspec_ros.models.feature_head import HEAD
from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.models.native_matrix import PackedMatrix
from memspec_ros.models.native_pool import NativePool
from memspec_ros.models.slot_forms import NativeForm

HEAD_GROUP = 32
UNPACKED = ('match_in', 'distance', 'out')


def is_packable(config: FeatureConfig) -> bool:
    """Whether the library is there and has products for these sizes."""
    return native.is_available() and all(
        columns % HEAD_GROUP == 0 for _, columns in packed_shapes(config).values())


def runs_native(config: FeatureConfig) -> bool:
    """Whether the library is there and runs whole slots of these sizes."""
    head_dim = config.width // config.num_heads
    return native.has_feature_drafts() and is_packable(config) and head_dim % 16 == 0


def packed_shapes(config: FeatureConfig) -> dict[str, tuple[int, int]]:
    """Names and shapes of the matrices that are packed."""
    shapes = {name: (shape[0], shape[1]) for name, shape in config.shapes().items()
              if len(shape) == 2 and name not in UNPACKED}
    return {**shapes, HEAD: (config.rows, config.width)}


def packed_forms(config: FeatureConfig) -> dict[str, NativeForm]:
    """How they lie in a slot. Rows of a file have one scale, rows of the head one per group."""
    return {name: NativeForm('int8', HEAD_GROUP if name == HEAD else 0)
            for name in packed_shapes(config)}


def packed_matrices(config: FeatureConfig,
                    views: Mapping[str, torch.Tensor]) -> dict[str, PackedMatrix]:
    """Return the matrices of a slot's views, for the library."""
    forms = packed_forms(config)
    return {name: forms[name].packed(views[name], columns, 0, rows)
            for name, (rows, columns) in packed_shapes(config).items()}


class PackedProjections:
    """Applies packed matrices; a :class:`~memspec_ros.models.feature_network.Project`."""

    def __init__(self, matrices: Mapping[str, PackedMatrix], pool: NativePool) -> None:
        self._matrices = matrices
        self._pool = pool

    def __call__(self, name: str, x: torch.Tensor,
                 bias: torch.Tensor | None = None) -> torch.Tensor:
        """Return ``x @ matrix^T + bias``: [width, in] to [width, out]."""
        return self._pool.linear(self._matrices[name], x, bias)
