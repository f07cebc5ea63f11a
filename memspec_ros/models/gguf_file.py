# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""GGUF files as checkpoints: configuration and tensors, in stored precision."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gguf.quants import dequantize

from memspec_ros.errors import ModelFormatError, UnsupportedModelError
from memspec_ros.models.gguf_blocks import UNPACKERS
from memspec_ros.models.gguf_config import read_config
from memspec_ros.models.gguf_header import TensorInfo, read_header
from memspec_ros.models.gguf_tokenizer import make_tokenizer
from memspec_ros.models.matrices import INT4_BITS, DenseMatrix, Matrix
from memspec_ros.models.tensor_shapes import tensor_shapes
from memspec_ros.models.tokenizer import Tokenizer

FINGERPRINT_BYTES = 4096  # of each tensor

_LAYER_NAMES = {
    'input_layernorm': 'attn_norm', 'post_attention_layernorm': 'ffn_norm',
    'self_attn.q_proj': 'attn_q', 'self_attn.k_proj': 'attn_k', 'self_attn.v_proj': 'attn_v',
    'self_attn.o_proj': 'attn_output', 'mlp.gate_proj': 'ffn_gate', 'mlp.up_proj': 'ffn_up',
    'mlp.down_proj': 'ffn_down'}
_TOP_NAMES = {'model.embed_tokens': 'token_embd', 'model.norm': 'output_norm',
              'lm_head': 'output'}


class GgufFile:
    """A GGUF file of the Llama or Qwen2 family.

    :raises ModelNotFoundError: there is no such file.
    :raises ModelFormatError: it is damaged, or its metadata are incomplete.
    :raises UnsupportedModelError: it holds another architecture.
    """

    table_bits = 0

    def __init__(self, path: Path) -> None:
        self.header = read_header(path)
        self.config = read_config(self.header)
        self.path = path
        self._shapes = tensor_shapes(self.config)
        self._data: npt.NDArray[np.uint8] = np.memmap(path, mode='r')

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata by key."""
        return self.header.metadata

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors as stored."""
        return sum(info.num_bytes for info in self.header.tensors.values())

    @property
    def is_4bit(self) -> bool:
        """Whether a weight of its layers takes 5.6 bits at most, scales included."""
        layers = [info for name, info in self.header.tensors.items() if name.startswith('blk.')]
        num_weights = sum(math.prod(info.shape) for info in layers)
        return sum(info.num_bytes for info in layers) * 8 <= 5.6 * num_weights

    def matrix(self, name: str) -> Matrix:
        """Return a weight matrix in its stored precision, rows in Hugging Face order."""
        info = self._find(name)
        matrix = self._read_matrix(info)
        if self.config.family == 'llama' and name.endswith(('q_proj.weight', 'k_proj.weight')):
            return matrix.take_rows(_rotary_order(info.shape[0], self.config.head_dim))
        return matrix

    def vector(self, name: str) -> torch.Tensor:
        """Return a norm or bias as float32."""
        return torch.from_numpy(self._floats(self._find(name)))

    def int4_bits(self, native: bool) -> float:
        """Return the bits that a weight of the layers takes in 4 bits, scales included."""
        del native  # quantise() makes one form for both
        return INT4_BITS

    def load_tokenizer(self) -> Tokenizer:
        """Return the tokenizer that the metadata describe. Raises as make_tokenizer."""
        return make_tokenizer(self.header)

    def fingerprint(self) -> str:
        """Return a hash of the header and of the beginning of every tensor."""
        tensors = sorted(self.header.tensors.values(), key=lambda info: info.offset)
        digest = hashlib.sha256(self._data[:tensors[0].offset].tobytes())
        for info in tensors:
            digest.update(self._bytes(info)[:FINGERPRINT_BYTES].tobytes())
        return digest.hexdigest()

    def _find(self, name: str) -> TensorInfo:
        stored, expected = gguf_name(name), self._shapes[name]
        info = self.header.tensors.get(stored)
        if info is None:
            raise ModelFormatError(f"{self.path}: tensor '{stored}' is missing")
        if info.shape != expected:
            raise ModelFormatError(f"{self.path}: tensor '{stored}' has shape "
                                   f'{list(info.shape)}, expected {list(expected)}')
        return info

    def _bytes(self, info: TensorInfo) -> npt.NDArray[np.uint8]:
        return self._data[info.offset:info.offset + info.num_bytes]

    def _floats(self, info: TensorInfo) -> npt.NDArray[np.float32]:
        try:
            values = dequantize(self._bytes(info), info.kind).reshape(info.shape)
        except NotImplementedError as error:
            raise UnsupportedModelError(f"{self.path}: tensor '{info.name}' is of type "
                                        f'{info.kind.name}, which cannot be read') from error
        return np.array(values, dtype=np.float32)

    def _read_matrix(self, info: TensorInfo) -> Matrix:
        unpack = UNPACKERS.get(info.kind)
        if unpack is not None:
            return unpack(self._bytes(info), info.shape[0])
        return DenseMatrix(data=torch.from_numpy(self._floats(info)))


def gguf_name(name: str) -> str:
    """Return the GGUF name of a tensor from its Hugging Face name."""
    stem, _, kind = name.rpartition('.')
    if stem in _TOP_NAMES:
        return f'{_TOP_NAMES[stem]}.{kind}'
    _, _, index, part = stem.split('.', 3)
    return f'blk.{index}.{_LAYER_NAMES[part]}.{kind}'


def _rotary_order(rows: int, head_dim: int) -> torch.Tensor:
    """Return where each row lies in files of the llama family: pairs there are neighbours."""
    return torch.arange(rows).view(-1, head_dim // 2, 2).transpose(1, 2).reshape(rows)
