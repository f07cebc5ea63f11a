# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes that a target will take, from its configuration alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memspec_ros.errors import ModelNotFoundError, UnsupportedModelError
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.gguf_file import GgufFile
from memspec_ros.models.safetensors_header import read_header
from memspec_ros.models.tokenizer_files import read_json

FLOAT_BYTES = {'fp32': 4, 'bf16': 2, 'fp16': 2}
INT4_GROUP = 32
GROUP_SCALE_BYTES = 4  # scale and zero, 16 bits each


def weight_bytes(config: DecoderConfig, dtype: str, *, group: int = INT4_GROUP,
                 table_bytes_per_weight: float | None = None) -> int:
    """Return the bytes of a decoder's weights.

    :param dtype: ``fp32``, ``bf16``, ``fp16`` or ``int4`` for the layers' matrices; in int4 each
        group of columns has a scale and a zero of 16 bits.
    :param group: columns that share a scale.
    :param table_bytes_per_weight: of embedding and head; None takes 2, or 4 in fp32. A tied head
        is counted once.
    """
    tables = (1 if config.tied_head else 2) * config.vocab_size * config.hidden_size
    matrices = config.num_weights - tables
    per_weight = 0.5 + GROUP_SCALE_BYTES / group if dtype == 'int4' else FLOAT_BYTES[dtype]
    per_table = table_bytes_per_weight or (4 if dtype == 'fp32' else 2)
    vectors = config.num_layers * (2 * config.hidden_size + config.qkv_bias * (
        config.query_size + 2 * config.kv_size)) + config.hidden_size
    return int(matrices * per_weight + tables * per_table
               + vectors * FLOAT_BYTES.get(dtype, 2))


def kv_cache_bytes(config: DecoderConfig, dtype: str, context_tokens: int) -> int:
    """Return the bytes of the KV cache of ``context_tokens``, in the activations' dtype."""
    return context_tokens * config.kv_bytes_per_token(FLOAT_BYTES.get(dtype, 2))


def workspace_bytes(config: DecoderConfig, dtype: str, *, context_tokens: int,
                    prefill_chunk_tokens: int, max_draft_length: int,
                    hidden_tokens: int = 0) -> int:
    """Return what a pass needs beside weights and KV cache, at its widest.

    The larger of a prefill chunk (states, the widest projection, and attention scores of all
    heads over the whole context) and a verification (its logits in float32), and the ring of
    ``hidden_tokens`` hidden states.
    """
    size = FLOAT_BYTES.get(dtype, 2)
    widest = max(2 * config.intermediate_size, config.query_size + 2 * config.kv_size)
    chunk = prefill_chunk_tokens * size * (
        4 * config.hidden_size + 2 * widest + config.num_heads * context_tokens)
    logits = (max_draft_length + 1) * config.vocab_size * (4 + size)
    return max(chunk, logits) + hidden_tokens * config.hidden_size * size


@dataclass(frozen=True, kw_only=True)
class TargetShape:
    """What the headers of a target say: its decoder, and how its weights are stored.

    :param is_4bit: whether the layers' matrices are stored in 4 bits, in groups of ``group``.
    :param stored_bytes: bytes of all tensors in the file or files; 0 when they are not there.
    """

    config: DecoderConfig
    is_4bit: bool
    group: int = INT4_GROUP
    stored_bytes: int = 0

    def weight_bytes(self, dtype: str = 'auto') -> int:
        """Return the bytes of the weights in memory; ``auto`` keeps 4 bits and else takes bf16."""
        if dtype == 'auto':
            dtype = 'int4' if self.is_4bit else 'bf16'
        return weight_bytes(self.config, dtype, group=self.group if self.is_4bit else INT4_GROUP)


def read_target_shape(path: Path) -> TargetShape:
    """Read the headers of a GGUF file, or of a Hugging Face folder (its config.json suffices).

    :raises ModelError: missing, damaged, or of an architecture that the fast decoder has not.
    """
    if not path.is_dir():
        file = GgufFile(path)
        return TargetShape(config=file.config, is_4bit=file.is_4bit, stored_bytes=file.num_bytes)
    document = read_json(path / 'config.json')
    if not document:
        raise ModelNotFoundError(f'{path} has no config.json')
    bits, group = _quantisation(document.get('quantization_config'), path)
    stored = sum(read_header(file).num_weight_bytes for file in path.glob('*.safetensors'))
    return TargetShape(config=DecoderConfig.from_hf(document, source=str(path / 'config.json')),
                       is_4bit=bits == 4, group=group, stored_bytes=stored)


def _quantisation(options: Any, path: Path) -> tuple[int, int]:
    """Return bits and group size; 16 bits where nothing is quantised."""
    if options is None:
        return 16, INT4_GROUP
    bits = options.get('bits') if isinstance(options, Mapping) else None
    group = options.get('group_size') if isinstance(options, Mapping) else None
    if bits != 4 or type(group) is not int or group < 1:
        raise UnsupportedModelError(f'{path / "config.json"}: the quantisation has bits {bits!r} '
                                    f'and group_size {group!r}; served are 4 bits in groups')
    return bits, group
