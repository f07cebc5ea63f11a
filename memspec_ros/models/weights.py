# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Weights in memory: one class per form, all called as ``y = linear(x)``.

``LINEAR_FORMS`` names the forms by dtype; a new form is one more class and one more entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn import functional

from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.matrices import Matrix, stack


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


LinearForm = Callable[[Matrix, 'torch.Tensor | None', torch.device], Linear]


def _fp32(matrix: Matrix, bias: torch.Tensor | None, device: torch.device) -> Linear:
    return DenseLinear(matrix.values().to(device), None if bias is None else bias.to(device))


def _bf16(matrix: Matrix, bias: torch.Tensor | None, device: torch.device) -> Linear:
    return DenseLinear(matrix.values().to(device, torch.bfloat16),
                       None if bias is None else bias.to(device, torch.bfloat16))


LINEAR_FORMS: dict[str, LinearForm] = {'fp32': _fp32, 'bf16': _bf16}
ACTIVATION_DTYPES = {'fp32': torch.float32, 'bf16': torch.bfloat16, 'int4': torch.bfloat16}


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
    """All weights of a decoder. ``embedding`` is [vocab_size, hidden]."""

    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: torch.Tensor
    head: Linear
    dtype: str


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
    config = checkpoint.config
    embedding = checkpoint.matrix('model.embed_tokens.weight')
    head_matrix = embedding if config.tied_head else checkpoint.matrix('lm_head.weight')
    head = LINEAR_FORMS[dtype](head_matrix, None, device)
    if config.tied_head and isinstance(head, DenseLinear):
        table = head.weight
    else:
        table = embedding.values().to(device, ACTIVATION_DTYPES[dtype])
    return DecoderWeights(
        embedding=table, head=head, dtype=dtype, final_norm=make.norm('model.norm'),
        layers=tuple(make.layer(f'model.layers.{index}') for index in range(config.num_layers)))


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

    def linear(self, names: Sequence[str], *, bias: bool = False) -> Linear:
        """Return projections fused by rows."""
        read = self._checkpoint
        matrix = stack([read.matrix(f'{name}.weight') for name in names])
        biases = torch.cat([read.vector(f'{name}.bias') for name in names]) if bias else None
        return LINEAR_FORMS[self._dtype](matrix, biases, self._device)

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
