# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A decoder's configuration out of the metadata of a GGUF file."""

from __future__ import annotations

import numpy as np
from gguf.constants import GGMLQuantizationType

from memspec_ros.errors import ModelFormatError, UnsupportedModelError
from memspec_ros.models.decoder_config import FAMILIES, DecoderConfig, RopeSettings
from memspec_ros.models.gguf_header import GgufHeader, TensorInfo


def read_config(header: GgufHeader) -> DecoderConfig:
    """Return the configuration that a header describes.

    :raises ModelFormatError: an entry is missing, of the wrong type, or out of range.
    :raises UnsupportedModelError: another architecture, or options that the fast decoder lacks.
    """
    family = header.metadata.get('general.architecture')
    if family not in FAMILIES:
        raise UnsupportedModelError(f"{header.path}: general.architecture is '{family}'; the "
                                    f'fast decoder has {" and ".join(FAMILIES)}')
    num_files = header.metadata.get('split.count', 1)
    if num_files not in (0, 1):
        raise UnsupportedModelError(f'{header.path}: it is one of {num_files} files; join them '
                                    'first with: llama-gguf-split --merge')
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
        # Stored as float32: the shortest decimal of it is what was meant (1e-05).
        return float(str(np.float32(value)))
