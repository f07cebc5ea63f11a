# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The block formats of GGUF tensors that keep their codes when read.

Other formats are dequantised by the ``gguf`` package. Layouts: ggml-org/ggml, ggml-common.h.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from gguf.constants import GGMLQuantizationType

from memspec_ros.models.matrices import DenseMatrix, GroupedMatrix, Matrix


def _blocks(raw: npt.NDArray[np.uint8], rows: int, num_bytes: int) -> npt.NDArray[np.uint8]:
    return raw.reshape(rows, -1, num_bytes)


def _halves(blocks: npt.NDArray[np.uint8], start: int) -> torch.Tensor:
    """Return the float16 at byte ``start`` of every block, as float32 [rows, groups]."""
    raw = np.ascontiguousarray(blocks[..., start:start + 2])
    return torch.from_numpy(raw.view(np.float16)[..., 0].astype(np.float32))


def _nibbles(blocks: npt.NDArray[np.uint8], start: int) -> torch.Tensor:
    """Return 4-bit codes: low nibbles are the first half of a group, high ones the second."""
    packed = blocks[..., start:]
    codes = np.concatenate((packed & 15, packed >> 4), axis=-1)
    return torch.from_numpy(codes.reshape(codes.shape[0], -1))


def _unpack_q4_0(raw: npt.NDArray[np.uint8], rows: int) -> Matrix:
    blocks = _blocks(raw, rows, 18)
    scales = _halves(blocks, 0)
    return GroupedMatrix(codes=_nibbles(blocks, 2), scales=scales, minima=-8.0 * scales,
                         num_bits=4)


def _unpack_q4_1(raw: npt.NDArray[np.uint8], rows: int) -> Matrix:
    blocks = _blocks(raw, rows, 20)
    return GroupedMatrix(codes=_nibbles(blocks, 4), scales=_halves(blocks, 0),
                         minima=_halves(blocks, 2), num_bits=4)


def _unpack_q8_0(raw: npt.NDArray[np.uint8], rows: int) -> Matrix:
    blocks = _blocks(raw, rows, 34)
    codes = np.ascontiguousarray(blocks[..., 2:]).view(np.int8).reshape(rows, -1)
    return GroupedMatrix(codes=torch.from_numpy(codes), scales=_halves(blocks, 0), minima=None,
                         num_bits=8)


def _unpack_f32(raw: npt.NDArray[np.uint8], rows: int) -> Matrix:
    return DenseMatrix(data=torch.from_numpy(raw.copy()).view(torch.float32).view(rows, -1))


def _unpack_f16(raw: npt.NDArray[np.uint8], rows: int) -> Matrix:
    return DenseMatrix(data=torch.from_numpy(raw.copy()).view(torch.float16).view(rows, -1))


def _unpack_bf16(raw: npt.NDArray[np.uint8], rows: int) -> Matrix:
    return DenseMatrix(data=torch.from_numpy(raw.copy()).view(torch.bfloat16).view(rows, -1))


UNPACKERS: dict[GGMLQuantizationType, Callable[[npt.NDArray[np.uint8], int], Matrix]] = {
    GGMLQuantizationType.Q4_0: _unpack_q4_0, GGMLQuantizationType.Q4_1: _unpack_q4_1,
    GGMLQuantizationType.Q8_0: _unpack_q8_0, GGMLQuantizationType.F32: _unpack_f32,
    GGMLQuantizationType.F16: _unpack_f16, GGMLQuantizationType.BF16: _unpack_bf16}
