# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Weights in memory: one class per form, all called as ``y = linear(x)``.

``LINEAR_FORMS`` names the forms by dtype; a new form is one more class and one more entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn import functional

from memspec_ros.errors import UnsupportedModelError
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.matrices import (
    DenseMatrix,
    GroupedMatrix,
    Matrix,
    StoredMatrix,
    have_one_order,
    quantise,
    stack,
)


class Linear(Protocol):
    """A projection: [..., in_features] to [..., out_features]."""

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Apply the projection."""

    @property
    def num_bytes(self) -> int:
        """Bytes that the weights take."""


class DenseLinear:
    """A float matrix, in float32 or bfloat16.

    :param weight: [out_features, in_features].
    :param bias: [out_features] or None.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.weight = weight
        self.bias = bias

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Apply the projection, in the weight's dtype."""
        return functional.linear(states, self.weight, self.bias)

    @property
    def num_bytes(self) -> int:
        """Bytes that the weights take."""
        return self.weight.numel() * self.weight.element_size()


class Int4Linear:
    """4-bit codes on PyTorch's own kernels, bfloat16 in and out.

    The kernels compute ``(code - 8) * scale + zero`` per group of columns.

    :param matrix: 4-bit codes, minimum and scale per group; converted once, to rounding of the
        scales to bfloat16. Groups larger than the kernels take are split. Columns in an order of
        their own have the inputs gathered in that order at each call.
    :param bias: [out_features] or None.
    :raises UnsupportedModelError: a shape that the kernels do not take.
    """

    def __init__(self, matrix: GroupedMatrix, bias: torch.Tensor | None,
                 device: torch.device) -> None:
        rows, columns = matrix.shape
        if rows % 16 or columns % 32:
            raise UnsupportedModelError(
                f'a matrix of {rows} x {columns} cannot be kept in 4 bits: rows must be a '
                'multiple of 16, columns of 32; set target.dtype to bf16')
        self.bias = None if bias is None else bias.to(device, torch.bfloat16)
        matrix = matrix.in_groups(kernel_group(matrix.group))
        self._group = matrix.group
        self._input_order = None if matrix.column_order is None else \
            matrix.column_order.to(device)
        self._on_cuda = device.type == 'cuda'
        self._packed = pack_cuda(matrix.codes.to(device)) if self._on_cuda else \
            torch.ops.aten._convert_weight_to_int4pack_for_cpu(matrix.codes.int(), 1)
        minima = torch.zeros_like(matrix.scales) if matrix.minima is None else matrix.minima
        zeros = minima + 8.0 * matrix.scales
        # [columns / group, rows, 2]: scale and zero
        self._scales = torch.stack((matrix.scales.t(), zeros.t()), dim=-1).to(
            device, torch.bfloat16).contiguous()

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Apply the projection."""
        rows = states.reshape(-1, states.shape[-1])
        if self._input_order is not None:
            rows = rows.index_select(1, self._input_order)
        multiply = torch.ops.aten._weight_int4pack_mm if self._on_cuda else \
            torch.ops.aten._weight_int4pack_mm_for_cpu
        output: torch.Tensor = multiply(rows, self._packed, self._group, self._scales)
        if self.bias is not None:
            output += self.bias
        return output.view(*states.shape[:-1], output.shape[-1])

    @property
    def num_bytes(self) -> int:
        """Bytes that the weights take."""
        return sum(part.numel() * part.element_size() for part in (self._packed, self._scales))


class JoinedLinear:
    """Projections whose outputs lie side by side, for matrices that cannot be stacked."""

    def __init__(self, parts: Sequence[Linear]) -> None:
        self._parts = tuple(parts)

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Apply all of them."""
        return torch.cat([part(states) for part in self._parts], dim=-1)

    @property
    def num_bytes(self) -> int:
        """Bytes that the weights take."""
        return sum(part.num_bytes for part in self._parts)


def kernel_group(group: int) -> int:
    """Return the largest group that PyTorch's 4-bit kernels take and that divides ``group``."""
    return math.gcd(group, MAX_KERNEL_GROUP)


def pack_cuda(codes: torch.Tensor) -> torch.Tensor:
    """Pack codes [rows, columns] as ``aten::_weight_int4pack_mm`` takes them."""
    pairs = (codes[:, ::2] << 4 | codes[:, 1::2]).contiguous()
    # The kernel walks columns in inner tiles of 16, two, four or eight at a time.
    tiles = next(tiles for tiles in (8, 4, 2) if codes.shape[1] % (16 * tiles) == 0)
    packed: torch.Tensor = torch.ops.aten._convert_weight_to_int4pack(pairs, tiles)
    return packed


LinearForm = Callable[[Matrix, 'torch.Tensor | None', torch.device], Linear]


def _fp32(matrix: Matrix, bias: torch.Tensor | None, device: torch.device) -> Linear:
    return DenseLinear(matrix.values().to(device), None if bias is None else bias.to(device))


def _bf16(matrix: Matrix, bias: torch.Tensor | None, device: torch.device) -> Linear:
    return DenseLinear(matrix.values().to(device, torch.bfloat16),
                       None if bias is None else bias.to(device, torch.bfloat16))


def _int4(matrix: Matrix, bias: torch.Tensor | None, device: torch.device) -> Linear:
    if not (isinstance(matrix, GroupedMatrix) and matrix.num_bits == 4
            and matrix.group % GROUP_COLUMNS == 0):
        matrix = quantise(matrix, num_bits=4, group=GROUP_COLUMNS)
    return Int4Linear(matrix, bias, device)


def has_fast_bf16(device: torch.device) -> bool:
    """Whether bfloat16 matrix products are at least as fast as float32 ones."""
    return device.type != 'cpu' or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


GROUP_COLUMNS = 32
MAX_KERNEL_GROUP = 128
LINEAR_FORMS: dict[str, LinearForm] = {'fp32': _fp32, 'bf16': _bf16, 'int4': _int4}
ACTIVATION_DTYPES = {'fp32': torch.float32, 'bf16': torch.bfloat16, 'int4': torch.bfloat16}


def head_form(dtype: str, device: torch.device) -> str:
    """Return the form of the embedding table and the head.

    4 bits cost the head too much, so it stays in floats: float32 on CPUs that only emulate
    bfloat16, which also gives float32 logits.
    """
    if dtype != 'int4':
        return dtype
    return 'bf16' if has_fast_bf16(device) else 'fp32'


@dataclass(frozen=True, kw_only=True)
class LayerWeights:
    """One decoder layer. Norms are [hidden]; qkv and gate/up are fused by rows."""

    attention_norm: torch.Tensor
    qkv: Linear
    output: Linear
    mlp_norm: torch.Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, kw_only=True)
class DecoderWeights:
    """All weights of a decoder. ``embedding`` is [vocab_size, hidden], in the head's dtype."""

    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: torch.Tensor
    head: Linear
    dtype: str

    @property
    def num_bytes(self) -> int:
        """Bytes of all matrices, a tied head counted once."""
        tables = self.head.num_bytes
        if not (isinstance(self.head, DenseLinear) and self.head.weight is self.embedding):
            tables += self.embedding.numel() * self.embedding.element_size()
        return tables + sum(part.num_bytes for layer in self.layers for part in (
            layer.qkv, layer.output, layer.gate_up, layer.down))


class Checkpoint(Protocol):
    """A model file: its configuration, and tensors by their Hugging Face names."""

    @property
    def config(self) -> DecoderConfig:
        """The decoder's shape."""

    def matrix(self, name: str) -> Matrix:
        """Return a weight matrix.

        :raises ModelFormatError: it is missing, damaged, or not of the configured shape.
        """

    def vector(self, name: str) -> torch.Tensor:
        """Return a norm or bias as float32. Raises as above."""


def load_weights(checkpoint: Checkpoint, *, dtype: str,
                 device: torch.device | None = None) -> DecoderWeights:
    """Bring a checkpoint's tensors into their form in memory, layer by layer.

    :param dtype: ``fp32``, ``bf16`` or ``int4``.
    :raises ModelFormatError: a tensor is missing, damaged, or of the wrong shape.
    """
    device = device or torch.device('cpu')
    make = _Maker(checkpoint, dtype, device)
    table = make.table('model.embed_tokens')
    head = table if checkpoint.config.tied_head else make.table('lm_head')
    return DecoderWeights(
        embedding=table.weight, head=head, dtype=dtype, final_norm=make.norm('model.norm'),
        layers=tuple(make.layer(f'model.layers.{index}')
                     for index in range(checkpoint.config.num_layers)))


class _Maker:
    """Makes the parts of one checkpoint in one form."""

    def __init__(self, checkpoint: Checkpoint, dtype: str, device: torch.device) -> None:
        self._checkpoint = checkpoint
        self._dtype = dtype
        self._device = device

    def norm(self, name: str) -> torch.Tensor:
        """Return a norm's weight in the activations' dtype."""
        return self._checkpoint.vector(f'{name}.weight').to(self._device,
                                                            ACTIVATION_DTYPES[self._dtype])

    def table(self, name: str) -> DenseLinear:
        """Return the embedding table or the head, in floats."""
        form = ACTIVATION_DTYPES[head_form(self._dtype, self._device)]
        matrix = self._checkpoint.matrix(f'{name}.weight')
        # A table may be the largest part of a model: no copy in float32 on the way.
        if isinstance(matrix, StoredMatrix):
            return DenseLinear(matrix.filled(form, self._device))
        stored = matrix.data if isinstance(matrix, DenseMatrix) else matrix.values()
        return DenseLinear(stored.to(self._device, form))

    def linear(self, names: Sequence[str], *, bias: bool = False) -> Linear:
        """Return projections fused by rows."""
        read = self._checkpoint
        make = LINEAR_FORMS[self._dtype]
        matrices = [read.matrix(f'{name}.weight') for name in names]
        biases = [read.vector(f'{name}.bias') for name in names] if bias else None
        if have_one_order(matrices):
            fused = None if biases is None else torch.cat(biases)
            return make(stack(matrices), fused, self._device)
        return JoinedLinear([
            make(matrix, None if biases is None else biases[index], self._device)
            for index, matrix in enumerate(matrices)])

    def layer(self, name: str) -> LayerWeights:
        """Return one layer."""
        attention, mlp = f'{name}.self_attn', f'{name}.mlp'
        return LayerWeights(
            attention_norm=self.norm(f'{name}.input_layernorm'),
            qkv=self.linear([f'{attention}.{part}_proj' for part in 'qkv'],
                            bias=self._checkpoint.config.qkv_bias),
            output=self.linear([f'{attention}.o_proj']),
            mlp_norm=self.norm(f'{name}.post_attention_layernorm'),
            gate_up=self.linear([f'{mlp}.gate_proj', f'{mlp}.up_proj']),
            down=self.linear([f'{mlp}.down_proj']))
