# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""All weights of a decoder in the native library's form."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from memspec_ros.models import native_library as native
from memspec_ros.models.native_matrix import GrowingStorage, PackedMatrix, Storage, pack
from memspec_ros.models.weights import Checkpoint


@dataclass(frozen=True, kw_only=True)
class NativeLayer:
    """One decoder layer: norms [hidden] and biases in float32, matrices packed."""

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
    def matrix(part: str) -> PackedMatrix:
        return pack(checkpoint.matrix(f'{name}.{part}_proj.weight'), storage)

    def bias(part: str) -> torch.Tensor | None:
        if not checkpoint.config.qkv_bias:
            return None
        return _vector(checkpoint, f'{name}.self_attn.{part}_proj.bias')

    return NativeLayer(
        attention_norm=_vector(checkpoint, f'{name}.input_layernorm.weight'),
        mlp_norm=_vector(checkpoint, f'{name}.post_attention_layernorm.weight'),
        query=matrix('self_attn.q'), key=matrix('self_attn.k'), value=matrix('self_attn.v'),
        output=matrix('self_attn.o'), gate=matrix('mlp.gate'), up=matrix('mlp.up'),
        down=matrix('mlp.down'), query_bias=bias('q'), key_bias=bias('k'), value_bias=bias('v'))
