# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""GGUF files as checkpoints: configuration and tensors, in stored precision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize

from memspec_ros.errors import ModelFormatError, UnsupportedModelError
from memspec_ros.models.decoder_config import FAMILIES, DecoderConfig, RopeSettings
from memspec_ros.models.gguf_header import GgufHeader, TensorInfo, read_header
from memspec_ros.models.matrices import DenseMatrix, GroupedMatrix, Matrix

_GROUP = 32  # columns per block of Q4_0, Q4_1 and Q8_0

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

    def __init__(self, path: Path) -> None:
        self.header = read_header(path)
        self.config = _read_config(self.header)
        self._data: npt.NDArray[np.uint8] = np.memmap(path, mode='r')

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata by key."""
        return self.header.metadata

    @property
    def is_4bit(self) -> bool:
        """Whether most of its bytes are 4-bit codes."""
        tensors = self.header.tensors.values()
        small = sum(t.num_bytes for t in tensors if t.num_bytes * 8 < 5.6 * np.prod(t.shape))
        layers = sum(t.num_bytes for t in tensors if t.name.startswith('blk.'))
        return 2 * small > layers

    def matrix(self, name: str) -> Matrix:
        """Return a weight matrix in its stored precision, rows in Hugging Face order."""
        info = self._find(name, 2)
        matrix = self._read_matrix(info)
        if self.config.family == 'llama' and name.endswith(('q_proj.weight', 'k_proj.weight')):
            return matrix.take_rows(_rotary_order(info.shape[0], self.config.head_dim))
        return matrix

    def vector(self, name: str) -> torch.Tensor:
        """Return a norm or bias as float32."""
        info = self._find(name, 1)
        return torch.from_numpy(self._floats(info))

    def _find(self, name: str, num_dimensions: int) -> TensorInfo:
        stored = gguf_name(name)
        info = self.header.tensors.get(stored)
        if info is None:
            raise ModelFormatError(f"{self.header.path}: tensor '{stored}' is missing")
        if len(info.shape) != num_dimensions:
            raise ModelFormatError(f"{self.header.path}: tensor '{stored}' has shape "
                                   f'{list(info.shape)}, expected {num_dimensions} dimensions')
        return info

    def _bytes(self, info: TensorInfo) -> npt.NDArray[np.uint8]:
        return self._data[info.offset:info.offset + info.num_bytes]

    def _floats(self, info: TensorInfo) -> npt.NDArray[np.float32]:
        try:
            values = dequantize(self._bytes(info), info.kind).reshape(info.shape)
        except NotImplementedError as error:
            raise UnsupportedModelError(f"{self.header.path}: tensor '{info.name}' is of type "
                                        f'{info.kind.name}, which cannot be read') from error
        return np.array(values, dtype=np.float32)

    def _read_matrix(self, info: TensorInfo) -> Matrix:
        unpack = _UNPACKERS.get(info.kind)
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


_UNPACKERS: dict[GGMLQuantizationType, Callable[[npt.NDArray[np.uint8], int], Matrix]] = {
    GGMLQuantizationType.Q4_0: _unpack_q4_0, GGMLQuantizationType.Q4_1: _unpack_q4_1,
    GGMLQuantizationType.Q8_0: _unpack_q8_0}


def _read_config(header: GgufHeader) -> DecoderConfig:
    family = header.metadata.get('general.architecture')
    if family not in FAMILIES:
        raise UnsupportedModelError(f"{header.path}: general.architecture is '{family}'; the "
                                    f'fast decoder has {" and ".join(FAMILIES)}')
    read = _MetadataReader(header, family)
    try:
        return read.config()
    except (ModelFormatError, UnsupportedModelError) as error:
        raise type(error)(f'{header.path}: {error}') from error


class _MetadataReader:
    """Reads a decoder's configuration out of checked metadata."""

    def __init__(self, header: GgufHeader, family: str) -> None:
        self._header = header
        self._family = family

    def config(self) -> DecoderConfig:
        """Return the configuration."""
        heads = self._integer('attention.head_count')
        hidden = self._integer('embedding_length')
        head_dim = self._integer('attention.key_length', hidden // max(heads, 1))
        if self._integer('attention.sliding_window', 0):
            raise UnsupportedModelError('attention.sliding_window is set; the fast decoder has '
                                        'full attention')
        if self._integer('rope.dimension_count', head_dim) != head_dim:
            raise UnsupportedModelError('rope.dimension_count differs from the head size '
                                        f'{head_dim}; the fast decoder turns whole heads')
        return DecoderConfig(
            family=self._family, vocab_size=self._vocab_size(), hidden_size=hidden,
            intermediate_size=self._integer('feed_forward_length'), num_heads=heads,
            num_layers=self._integer('block_count'), head_dim=head_dim,
            num_kv_heads=self._integer('attention.head_count_kv', heads),
            max_context_tokens=self._integer('context_length'),
            norm_epsilon=self._number('attention.layer_norm_rms_epsilon', None),
            rope=self._rope(), qkv_bias='blk.0.attn_q.bias' in self._header.tensors,
            tied_head='output.weight' not in self._header.tensors)

    def _vocab_size(self) -> int:
        table = self._header.tensors.get('token_embd.weight')
        if table is None:
            raise ModelFormatError("tensor 'token_embd.weight' is missing")
        return table.shape[0]

    def _rope(self) -> RopeSettings:
        kind = self._header.metadata.get(f'{self._family}.rope.scaling.type', 'none')
        divisors = self._header.tensors.get('rope_freqs.weight')
        return RopeSettings(
            base=self._number('rope.freq_base', 10000.0),
            scaling='default' if kind in ('none', '') else str(kind),
            factor=self._number('rope.scaling.factor', 1.0),
            frequency_divisors=() if divisors is None else self._divisors(divisors))

    def _divisors(self, info: TensorInfo) -> tuple[float, ...]:
        if info.kind != GGMLQuantizationType.F32:
            raise ModelFormatError(f"tensor 'rope_freqs.weight' is {info.kind.name}, "
                                   'expected F32')
        raw = np.memmap(self._header.path, mode='r', dtype=np.uint8, offset=info.offset,
                        shape=(info.num_bytes,))
        return tuple(float(value) for value in raw.view(np.float32))

    def _integer(self, key: str, default: int | None = None) -> int:
        value = self._header.metadata.get(f'{self._family}.{key}', default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ModelFormatError(f"metadata '{self._family}.{key}' is {value!r}, expected an "
                                   'integer')
        return value

    def _number(self, key: str, default: float | None) -> float:
        value = self._header.metadata.get(f'{self._family}.{key}', default)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise ModelFormatError(f"metadata '{self._family}.{key}' is {value!r}, expected a "
                                   'number')
        return float(value)
