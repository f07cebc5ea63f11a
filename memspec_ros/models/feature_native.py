# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A feature-conditioned draft's matrices in 8 bits, for the native library.

One proposal is a dozen products with one vector: all time goes into reading matrices. In 8 bits
that is a quarter of the bytes, and the library's kernels take an eighth of PyTorch's time for
them. Rows of a draft file that is stored in 8 bits keep their very codes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping

import torch

from memspec_ros.models import native_library as native
from memspec_ros.models.feature_head import HEAD
from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.models.native_matrix import ALIGNMENT, PackedMatrix
from memspec_ros.models.native_pool import NativePool

HEAD_GROUP = 32
UNPACKED = ('match_in', 'distance', 'out')


def is_packable(config: FeatureConfig) -> bool:
    """Whether the library is there and has products for these sizes."""
    return native.is_available() and all(
        columns % HEAD_GROUP == 0 for _, _, columns, _ in _matrices(config))


def runs_native(config: FeatureConfig) -> bool:
    """Whether the library is there and runs whole slots of these sizes."""
    head_dim = config.width // config.num_heads
    return native.has_feature_drafts() and is_packable(config) and head_dim % 16 == 0


def packed_bytes(config: FeatureConfig) -> int:
    """Bytes of all packed matrices."""
    return sum(_size(rows, columns, group) for _, rows, columns, group in _matrices(config))


class PackedProjections:
    """Applies packed matrices; a :class:`~memspec_ros.models.feature_network.Project`.

    :param memory: uint8, 64-byte aligned, of :func:`packed_bytes`; :meth:`fill` fills it.
    """

    def __init__(self, config: FeatureConfig, memory: torch.Tensor, pool: NativePool) -> None:
        self._pool = pool
        self.matrices: dict[str, PackedMatrix] = {}
        offset = 0
        for name, rows, columns, group in _matrices(config):
            size = _size(rows, columns, group)
            self.matrices[name] = PackedMatrix(
                kind=native.INT8, rows=rows, columns=columns, group=group,
                scale_kind=native.FP32, offset=native.NO_OFFSET,
                data=memory[offset:offset + size])
            offset += size

    def __call__(self, name: str, x: torch.Tensor,
                 bias: torch.Tensor | None = None) -> torch.Tensor:
        """Return ``x @ matrix^T + bias``: [width, in] to [width, out]."""
        return self._pool.linear(self.matrices[name], x, bias)

    def fill(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Round float matrices to 8 bits and pack them."""
        for name, matrix in self.matrices.items():
            grouped = weights[name].float().view(matrix.rows, -1, matrix.group)
            scales = (grouped.abs().amax(2) / 127.0).contiguous()
            divisors = torch.where(scales > 0, scales, torch.ones_like(scales))
            codes = (grouped / divisors[..., None]).round_().to(torch.int8).contiguous()
            native.check(native.load().memspec_pack_grouped(
                ctypes.byref(matrix.struct()), codes.data_ptr(), scales.data_ptr(), None,
                matrix.data.data_ptr()), 'packing')


def _matrices(config: FeatureConfig) -> Iterator[tuple[str, int, int, int]]:
    """Name, rows, columns and group of each matrix. Rows of a file have one scale."""
    for name, shape in config.shapes().items():
        if len(shape) == 2 and name not in UNPACKED:
            yield name, shape[0], shape[1], shape[1]
    yield HEAD, config.rows, config.width, HEAD_GROUP


def _size(rows: int, columns: int, group: int) -> int:
    struct = native.MatrixStruct(native.INT8, rows, columns, group, native.FP32,
                                 native.NO_OFFSET, None)
    size = int(native.load().memspec_packed_bytes(ctypes.byref(struct)))
    return -(-size // ALIGNMENT) * ALIGNMENT
