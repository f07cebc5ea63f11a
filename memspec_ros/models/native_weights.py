# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""All weights of a decoder in the native library's form."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from memspec_ros.models import native_library as native
from memspec_ros.models.heap import trim_heap
from memspec_ros.models.matrices import GroupedMatrix, Matrix, have_one_order, quantise
from memspec_ros.models.native_matrix import GrowingStorage, PackedMatrix, Storage, pack
from memspec_ros.models.weights import GROUP_COLUMNS, Checkpoint


@dataclass(frozen=True, kw_only=True)
class NativeLayer:
    """One decoder layer: norms [hidden] and biases in float32, matrices packed.

    The orders, int32, are those of the columns of query, key and value, of output, and of gate
    and up, where they are not the inputs' own. Those of ``down`` lie in the rows of gate and up.
    """

    attention_norm: torch.Tensor
    mlp_norm: torch.Tensor
    query: PackedMatrix
    key: PackedMatrix
    value: PackedMatrix
    output: PackedMatrix
    gate: PackedMatrix
    up: PackedMatrix
    down: PackedMatrix
    query_bias: torch.Tensor | None = None
    key_bias: torch.Tensor | None = None
    value_bias: torch.Tensor | None = None
    attention_order: torch.Tensor | None = None
    output_order: torch.Tensor | None = None
    mlp_order: torch.Tensor | None = None

    def struct(self) -> native.LayerStruct:
        """Return its description for the library."""
        made = native.LayerStruct()
        for name, part in vars(self).items():
            if isinstance(part, PackedMatrix):
                setattr(made, name, part.struct())
            else:
                setattr(made, name, None if part is None else part.data_ptr())
        return made

    @property
    def num_bytes(self) -> int:
        """Bytes of the packed matrices."""
        return sum(part.num_bytes for part in vars(self).values()
                   if isinstance(part, PackedMatrix))


@dataclass(frozen=True, kw_only=True)
class NativeWeights:
    """All weights of a decoder.

    ``embedding`` None serves passes over embeddings only, ``head`` None gives no logits. A tied
    head is the same object as the embedding. ``final_norm`` None leaves the last states as they
    are.
    """

    layers: tuple[NativeLayer, ...]
    final_norm: torch.Tensor | None
    embedding: PackedMatrix | None
    head: PackedMatrix | None

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint,
                        storage: Storage | None = None) -> NativeWeights:
        """Pack a checkpoint's tensors in their stored precision.

        :raises ModelFormatError: a tensor is missing, damaged, or of the wrong shape.
        :raises UnsupportedModelError: a tensor's form has no kernels.
        """
        storage = storage or GrowingStorage()
        layers = tuple(_pack_layer(checkpoint, f'model.layers.{index}', storage)
                       for index in range(checkpoint.config.num_layers))
        head_name = 'model.embed_tokens' if checkpoint.config.tied_head else 'lm_head'
        head = pack(checkpoint.matrix(f'{head_name}.weight'), storage)
        embedding = head if checkpoint.config.tied_head else pack(
            checkpoint.matrix('model.embed_tokens.weight'), storage)
        return cls(layers=layers, final_norm=_vector(checkpoint, 'model.norm.weight'),
                   embedding=embedding, head=head)

    @property
    def num_bytes(self) -> int:
        """Bytes of the packed matrices, a tied head counted once."""
        tables = {id(table): table.num_bytes for table in (self.embedding, self.head)
                  if table is not None}
        return sum(layer.num_bytes for layer in self.layers) + sum(tables.values())


def _vector(checkpoint: Checkpoint, name: str) -> torch.Tensor:
    return checkpoint.vector(name).float().contiguous()


def _pack_layer(checkpoint: Checkpoint, name: str, storage: Storage) -> NativeLayer:
    def bias(part: str) -> torch.Tensor | None:
        if not checkpoint.config.qkv_bias:
            return None
        return _vector(checkpoint, f'{name}.self_attn.{part}_proj.bias')

    trim_heap()  # what the layer before left
    attention = _Stage(checkpoint, [f'{name}.self_attn.{part}_proj' for part in 'qkv'])
    output = _Stage(checkpoint, [f'{name}.self_attn.o_proj'])
    down = _Stage(checkpoint, [f'{name}.mlp.down_proj'])
    mlp = _Stage(checkpoint, [f'{name}.mlp.gate_proj', f'{name}.mlp.up_proj'],
                 row_order=down.order)
    query, key, value = attention.pack(storage)
    gate, up = mlp.pack(storage)
    return NativeLayer(
        attention_norm=_vector(checkpoint, f'{name}.input_layernorm.weight'),
        mlp_norm=_vector(checkpoint, f'{name}.post_attention_layernorm.weight'),
        query=query, key=key, value=value, output=output.pack(storage)[0], gate=gate, up=up,
        down=down.pack(storage)[0], query_bias=bias('q'), key_bias=bias('k'),
        value_bias=bias('v'), attention_order=attention.input_order,
        output_order=output.input_order, mlp_order=mlp.input_order)


class _Stage:
    """Matrices that multiply the same inputs.

    Columns in act-order keep their codes when all matrices have one order, in which the inputs
    are then gathered; else they are rounded to 8 bits.

    :param row_order: order of the rows, None leaves them.
    """

    def __init__(self, checkpoint: Checkpoint, names: Sequence[str],
                 row_order: torch.Tensor | None = None) -> None:
        matrices = [checkpoint.matrix(f'{name}.weight') for name in names]
        if row_order is not None:
            matrices = [matrix.take_rows(row_order) for matrix in matrices]
        if not have_one_order(matrices):
            matrices = [quantise(matrix, num_bits=8, group=GROUP_COLUMNS) for matrix in matrices]
        self._matrices: list[Matrix] = matrices
        first = matrices[0]
        self.order = first.column_order if isinstance(first, GroupedMatrix) else None

    @property
    def input_order(self) -> torch.Tensor | None:
        """The order as the library takes it."""
        return None if self.order is None else self.order.to(torch.int32).contiguous()

    def pack(self, storage: Storage) -> list[PackedMatrix]:
        """Pack the matrices, columns in their order, and forget them."""
        matrices, self._matrices = self._matrices, []
        return [pack(dataclasses.replace(matrix, column_order=None)
                     if isinstance(matrix, GroupedMatrix) else matrix, storage)
                for matrix in matrices]
