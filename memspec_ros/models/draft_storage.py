# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How draft weights are stored in 8 and 4 bits, and what they are worth.

int8: one scale a row or a group of columns, w = q * scale. int4: one scale and zero a group of
columns, q in 0..15, w = (q - 8) * scale + zero, as PyTorch's int4 kernels have it, so it repacks
without loss. Column c lies in the low half of a byte, column c + columns / 2 in the high half: so
unpacking writes two runs of memory instead of every other byte, which takes half the time.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

STORAGES = ('fp32', 'fp16', 'bf16', 'int8', 'int4')
FLOAT_DTYPES = {'fp32': torch.float32, 'fp16': torch.float16, 'bf16': torch.bfloat16}
INT4_GROUP_SIZE = 32
INT8_GROUP_SIZE = 32


@dataclass(frozen=True, kw_only=True)
class QuantisedMatrix:
    """``values``: int8 [rows, columns] with ``scale`` float32 [rows] or [rows, groups], or uint8
    [rows, columns / 2] with ``scale`` and ``zero`` float16 [rows, groups].
    """

    values: torch.Tensor
    scale: torch.Tensor
    zero: torch.Tensor | None = None

    def dequantise(self) -> torch.Tensor:
        """Return the weights that this stands for: float32 [rows, columns]."""
        if self.zero is None:
            grouped = self.values.float().view(*self.scale.shape, -1)
            return (grouped * self.scale[..., None]).view(self.values.shape)
        rows, groups = self.scale.shape
        grouped = unpack_int4(self.values).float().view(rows, groups, -1)
        grouped = (grouped - 8.0) * self.scale.float()[..., None] + self.zero.float()[..., None]
        return grouped.view(rows, -1)


def quantise_int8(weight: torch.Tensor, group_size: int = 0) -> QuantisedMatrix:
    """Round a float matrix [rows, columns] to 8 bits.

    :param group_size: columns that share a scale; 0 for one scale a row.
    """
    grouped = weight.float()
    if group_size:
        grouped = grouped.view(len(weight), -1, group_size)
    scale = grouped.abs().amax(dim=-1) / 127.0
    divisor = torch.where(scale > 0, scale, torch.ones_like(scale))
    values = (grouped / divisor[..., None]).round().clamp(-127, 127).to(torch.int8)
    return QuantisedMatrix(values=values.view(weight.shape), scale=scale)


def quantise_int4(weight: torch.Tensor, group_size: int = INT4_GROUP_SIZE) -> QuantisedMatrix:
    """Round a float matrix [rows, columns] to 4 bits; ``columns % group_size`` must be 0.

    Values are chosen for the scale and zero as stored, in float16, not as computed.
    """
    rows, columns = weight.shape
    grouped = weight.float().view(rows, columns // group_size, group_size)
    low, high = grouped.amin(dim=2), grouped.amax(dim=2)
    scale = ((high - low) / 15.0).half()
    zero = (low + 8.0 * scale.float()).half()
    divisor = torch.where(scale > 0, scale, torch.ones_like(scale)).float()
    values = ((grouped - zero.float()[..., None]) / divisor[..., None]).round() + 8.0
    values = values.clamp(0, 15).to(torch.uint8).view(rows, columns)
    half = columns // 2
    packed = values[:, :half] | (values[:, half:] << 4)
    return QuantisedMatrix(values=packed, scale=scale, zero=zero)


def unpack_int4(packed: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Unpack [rows, columns / 2] bytes to [rows, columns] values of 0..15 (into ``out``)."""
    if out is None:
        out = torch.empty(packed.shape[0], 2 * packed.shape[1], dtype=torch.uint8)
    half = packed.shape[1]
    torch.bitwise_and(packed, 15, out=out[:, :half])
    torch.bitwise_right_shift(packed, 4, out=out[:, half:])
    return out
