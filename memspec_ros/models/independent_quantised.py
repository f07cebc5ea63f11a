# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Independent drafts on PyTorch whose matrices have 8 or 4 bits in their slot: those on CUDA."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import torch
from torch.nn import functional

from memspec_ros.errors import ModelFormatError
from memspec_ros.models.decoder import Decoder
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.slot_forms import FormedMatrix, Int4Tiles, Int8Rows
from memspec_ros.models.weights import (
    GROUP_COLUMNS,
    DecoderWeights,
    DenseLinear,
    LayerWeights,
    Linear,
)

CODES_AT_ONCE = 4096  # rows

Parts = Mapping[str, torch.Tensor | FormedMatrix]


class Int8Linear:
    """8-bit rows of a slot: ``(x @ codes^T) * scale + bias``.

    :param codes: int8 [rows, columns]; ``scales`` float32 [rows].
    """

    def __init__(self, codes: torch.Tensor, scales: torch.Tensor,
                 bias: torch.Tensor | None = None) -> None:
        self._codes = codes
        self._scales = scales
        self._bias = bias

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Apply the projection, in the states' dtype."""
        rows = states.reshape(-1, states.shape[-1])
        output = int8_product(rows, self._codes, self._scales.to(states.dtype))
        if self._bias is not None:
            output = output + self._bias
        return output.view(*states.shape[:-1], output.shape[-1])

    def rows(self, token_ids: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return some rows as floats, [..., columns]."""
        scales = self._scales[token_ids].to(dtype)
        return self._codes[token_ids].to(dtype) * scales[..., None]

    @property
    def num_bytes(self) -> int:
        """Bytes that the weights take."""
        return self._codes.numel() + 4 * self._scales.numel()


def int8_product(rows: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return ``(rows @ codes^T) * scales``, in the dtype of ``rows``.

    By PyTorch's kernel where there is one, for bfloat16; else some rows of codes at a time, so
    that a large table does not take its size in floats.
    """
    if rows.dtype is torch.bfloat16 and has_int8_kernel(rows.device.type):
        output: torch.Tensor = torch.ops.aten._weight_int8pack_mm(rows, codes, scales)
        return output
    return torch.cat([functional.linear(rows, part.to(rows.dtype))
                      for part in torch.split(codes, CODES_AT_ONCE)], dim=-1) * scales


@functools.cache
def has_int8_kernel(device: str) -> bool:
    """Whether this PyTorch multiplies 8-bit rows on a device; that for CUDA is of version 2.9."""
    try:
        torch.ops.aten._weight_int8pack_mm(
            torch.zeros(1, 32, dtype=torch.bfloat16, device=device),
            torch.zeros(16, 32, dtype=torch.int8, device=device),
            torch.zeros(16, dtype=torch.bfloat16, device=device))
    except (NotImplementedError, RuntimeError):
        return False
    return True


class Int4TilesLinear:
    """4-bit tiles of a slot on CUDA.

    :param tiles: int32, as ``aten::_convert_weight_to_int4pack`` makes them; ``scales`` bfloat16
        [columns / 32, rows, 2].
    """

    def __init__(self, tiles: torch.Tensor, scales: torch.Tensor,
                 bias: torch.Tensor | None = None) -> None:
        self._tiles = tiles
        self._scales = scales
        self._bias = bias

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Apply the projection."""
        rows = states.reshape(-1, states.shape[-1])
        output: torch.Tensor = torch.ops.aten._weight_int4pack_mm(
            rows, self._tiles, GROUP_COLUMNS, self._scales)
        if self._bias is not None:
            output += self._bias
        return output.view(*states.shape[:-1], output.shape[-1])

    @property
    def num_bytes(self) -> int:
        """Bytes that the weights take."""
        return 4 * self._tiles.numel() + 2 * self._scales.numel()


class QuantisedDecoder(Decoder):
    """A decoder whose embedding table may have 8 bits."""

    def __init__(self, config: DecoderConfig, weights: DecoderWeights, table: Linear, *,
                 context_tokens: int) -> None:
        super().__init__(config, weights, context_tokens=context_tokens)
        self._table = table
        self.num_embeddings = config.vocab_size

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Look tokens up: [batch, width] integers to [batch, width, hidden]."""
        if isinstance(self._table, Int8Linear):
            return self._table.rows(token_ids, self.dtype)
        return super().embed(token_ids)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Apply the head to last hidden states: [..., hidden] to [..., vocab_size]."""
        return self.weights.head(hidden)


def quantised_decoder(config: DecoderConfig, parts: Parts, *, form: str,
                      context_tokens: int) -> QuantisedDecoder:
    """Make a decoder over tensors and formed matrices; nothing is copied.

    :param parts: as independent_decoder.independent_shapes names them, no borrowed embedding.
    :param form: the dtype of the floats, ``fp32`` or ``bf16``.
    """
    table = linear_over(parts['embedding'])
    # Where the table has 8 bits, embed() does not look into the weights' own, which only tells
    # the device then.
    floats = 'final_norm' if isinstance(table, Int8Linear) else 'embedding'
    weights = DecoderWeights(
        embedding=_vector(parts, floats),
        final_norm=_vector(parts, 'final_norm'), dtype=form,
        head=table if config.tied_head else linear_over(parts['head']),
        layers=tuple(_layer(config, parts, f'layers.{index}')
                     for index in range(config.num_layers)))
    return QuantisedDecoder(config, weights, table, context_tokens=context_tokens)


def linear_over(part: torch.Tensor | FormedMatrix, bias: torch.Tensor | None = None) -> Linear:
    """Return the projection of a matrix in whatever form.

    :raises ModelFormatError: a form that PyTorch's kernels do not take.
    """
    if isinstance(part, torch.Tensor):
        return DenseLinear(part, bias)
    if isinstance(part.form, Int8Rows):
        return Int8Linear(*part.form.parts(part.memory, part.shape), bias)
    if isinstance(part.form, Int4Tiles):
        return Int4TilesLinear(*part.form.parts(part.memory, part.shape), bias)
    raise ModelFormatError(f'a matrix in the form {type(part.form).__name__} is none for PyTorch')


def _vector(parts: Parts, name: str) -> torch.Tensor:
    part = parts[name]
    assert isinstance(part, torch.Tensor)
    return part


def _layer(config: DecoderConfig, parts: Parts, name: str) -> LayerWeights:
    bias = _vector(parts, f'{name}.qkv_bias') if config.qkv_bias else None
    return LayerWeights(
        attention_norm=_vector(parts, f'{name}.attention_norm'),
        qkv=linear_over(parts[f'{name}.qkv'], bias),
        output=linear_over(parts[f'{name}.output']),
        mlp_norm=_vector(parts, f'{name}.mlp_norm'),
        gate_up=linear_over(parts[f'{name}.gate_up']),
        down=linear_over(parts[f'{name}.down']))
