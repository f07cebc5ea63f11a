# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The shape of a decoder of the Llama and Qwen2 families, whatever file it was read from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memspec_ros.errors import ModelFormatError, UnsupportedModelError, did_you_mean

FAMILIES = ('llama', 'qwen2')
ROPE_SCALINGS = ('default', 'linear', 'llama3')

# Larger than any model of these families; a count above it comes from a damaged file.
MAX_DIMENSION = 1 << 24
MAX_LAYERS = 1024


@dataclass(frozen=True, kw_only=True)
class RopeSettings:
    """Rotary embedding: base frequency and how long contexts stretch it.

    ``linear`` divides every frequency by ``factor``. ``llama3`` divides the low ones (wavelength
    above ``original_context / low_freq_factor``), keeps the high ones and blends between, as the
    Llama 3.1 model card describes. ``frequency_divisors`` [head_dim / 2], when given, is that
    blend already computed (GGUF files carry it as a tensor).
    """

    base: float = 10000.0
    scaling: str = 'default'
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context: int = 8192
    frequency_divisors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.scaling not in ROPE_SCALINGS:
            raise UnsupportedModelError(
                f"rope scaling is '{self.scaling}'; the fast decoder has "
                f'{", ".join(ROPE_SCALINGS)}{did_you_mean(self.scaling, ROPE_SCALINGS)}')
        for name in ('base', 'factor', 'low_freq_factor', 'high_freq_factor'):
            value = getattr(self, name)
            if not math.isfinite(value) or value <= 0.0:
                raise ModelFormatError(f'rope {name} is {value}; it must be a positive number')
        if not all(math.isfinite(value) and value > 0.0 for value in self.frequency_divisors):
            raise ModelFormatError('rope frequency divisors must be positive numbers')

    def inverse_frequencies(self, head_dim: int) -> tuple[float, ...]:
        """Return the angle per position of each of the ``head_dim / 2`` pairs, in radians."""
        plain = [self.base ** (-2.0 * i / head_dim) for i in range(head_dim // 2)]
        if self.frequency_divisors:
            return tuple(f / d for f, d in zip(plain, self.frequency_divisors, strict=True))
        if self.scaling == 'linear':
            return tuple(f / self.factor for f in plain)
        if self.scaling == 'llama3':
            return tuple(self._llama3(f) for f in plain)
        return tuple(plain)

    def _llama3(self, frequency: float) -> float:
        turns = self.original_context * frequency / (2.0 * math.pi)
        blend = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        blend = min(max(blend, 0.0), 1.0)
        return (1.0 - blend) * frequency / self.factor + blend * frequency


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """Sizes and options of one decoder.

    :raises ModelFormatError: a size is out of range or they do not go together.
    :raises UnsupportedModelError: a family or rope scaling that the fast decoder has not.
    """

    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_context_tokens: int
    norm_epsilon: float = 1e-5
    rope: RopeSettings = field(default_factory=RopeSettings)
    qkv_bias: bool = False
    tied_head: bool = False

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise UnsupportedModelError(f"the architecture is '{self.family}'; the fast decoder "
                                        f'has {" and ".join(FAMILIES)}')
        for name in ('vocab_size', 'hidden_size', 'intermediate_size', 'num_layers', 'num_heads',
                     'num_kv_heads', 'head_dim', 'max_context_tokens'):
            value, limit = getattr(self, name), MAX_DIMENSION
            if name == 'num_layers':
                limit = MAX_LAYERS
            if not 1 <= value <= limit:
                raise ModelFormatError(f'{name} is {value}; it must be in [1, {limit}]')
        if self.num_heads % self.num_kv_heads:
            raise ModelFormatError(f'{self.num_heads} heads cannot share '
                                   f'{self.num_kv_heads} KV heads evenly')
        if self.head_dim % 2:
            raise ModelFormatError(f'head_dim is {self.head_dim}; rotary embedding needs it even')
        if len(self.rope.frequency_divisors) not in (0, self.head_dim // 2):
            raise ModelFormatError(f'there are {len(self.rope.frequency_divisors)} rope frequency '
                                   f'divisors for a head_dim of {self.head_dim}')
        if not 0.0 < self.norm_epsilon < 1.0:
            raise ModelFormatError(f'norm_epsilon is {self.norm_epsilon}; it must be in (0, 1)')

    @property
    def query_size(self) -> int:
        """Rows of the query projection."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Rows of the key projection, and of the value projection."""
        return self.num_kv_heads * self.head_dim

    @property
    def num_weights(self) -> int:
        """Elements of all weight matrices (the head counted once when it is tied)."""
        attention = self.hidden_size * 2 * (self.query_size + self.kv_size)
        mlp = 3 * self.hidden_size * self.intermediate_size
        tables = 1 if self.tied_head else 2
        return (self.num_layers * (attention + mlp)
                + tables * self.vocab_size * self.hidden_size)

    def kv_bytes_per_token(self, bytes_per_element: int) -> int:
        """Bytes that one token's keys and values take over all layers."""
        return 2 * self.num_layers * self.kv_size * bytes_per_element

    @classmethod
    def from_hf(cls, document: Mapping[str, Any], *, source: str) -> DecoderConfig:
        """Read a Hugging Face ``config.json``.

        :param source: the file's name, for messages.
        :raises ModelFormatError: a field is missing, of the wrong type, or out of range.
        :raises UnsupportedModelError: the file asks for what the fast decoder has not.
        """
        family = str(document.get('model_type', ''))
        if family not in FAMILIES:
            raise UnsupportedModelError(f"{source}: model_type is '{family}'; the fast decoder "
                                        f'has {" and ".join(FAMILIES)}')
        _refuse_options(document, source)
        heads = _integer(document, 'num_attention_heads', source)
        hidden = _integer(document, 'hidden_size', source)
        try:
            return cls(
                family=family, vocab_size=_integer(document, 'vocab_size', source),
                hidden_size=hidden, num_heads=heads,
                intermediate_size=_integer(document, 'intermediate_size', source),
                num_layers=_integer(document, 'num_hidden_layers', source),
                num_kv_heads=_integer(document, 'num_key_value_heads', source, heads),
                head_dim=_integer(document, 'head_dim', source, hidden // max(heads, 1)),
                max_context_tokens=_integer(document, 'max_position_embeddings', source, 2048),
                norm_epsilon=_number(document, 'rms_norm_eps', source, 1e-6),
                rope=_rope_from_hf(document, source), qkv_bias=family == 'qwen2',
                tied_head=bool(document.get('tie_word_embeddings', False)))
        except (ModelFormatError, UnsupportedModelError) as error:
            raise type(error)(f'{source}: {error}'.replace(f'{source}: {source}', source)) \
                from error


def native_serves(config: DecoderConfig) -> bool:
    """Whether the native decoder has kernels for these sizes (native/src/checks.cpp)."""
    mixed = config.num_heads // config.num_kv_heads * config.head_dim
    return (config.hidden_size % 32 == config.intermediate_size % 32 == mixed % 32 == 0
            and config.head_dim % 16 == 0 and config.head_dim <= 512)


def _refuse_options(document: Mapping[str, Any], source: str) -> None:
    activation = document.get('hidden_act', 'silu')
    if activation not in ('silu', 'swish'):
        raise UnsupportedModelError(f"{source}: hidden_act is '{activation}'; the fast decoder "
                                    'has silu')
    for option in ('attention_bias', 'mlp_bias', 'use_sliding_window'):
        if document.get(option):
            raise UnsupportedModelError(f'{source}: {option} is set; the fast decoder has not '
                                        'that option')


def _rope_from_hf(document: Mapping[str, Any], source: str) -> RopeSettings:
    # transformers 5 writes rope_parameters; earlier ones rope_theta and rope_scaling.
    scaling = document.get('rope_parameters') or document.get('rope_scaling') or {}
    if not isinstance(scaling, Mapping):
        raise ModelFormatError(f'{source}: rope_scaling is {scaling!r}; it must be an object')
    base = _number(scaling, 'rope_theta', source, _number(document, 'rope_theta', source, 1e4))
    return RopeSettings(
        base=base, scaling=str(scaling.get('rope_type', scaling.get('type', 'default'))),
        factor=_number(scaling, 'factor', source, 1.0),
        low_freq_factor=_number(scaling, 'low_freq_factor', source, 1.0),
        high_freq_factor=_number(scaling, 'high_freq_factor', source, 4.0),
        original_context=_integer(scaling, 'original_max_position_embeddings', source, 8192))


def _integer(document: Mapping[str, Any], name: str, source: str,
             default: int | None = None) -> int:
    value = document.get(name)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool):
        raise ModelFormatError(f'{source}: {name} is {value!r}; it must be an integer')
    return value


def _number(document: Mapping[str, Any], name: str, source: str, default: float) -> float:
    value = document.get(name)
    if value is None:
        return default
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ModelFormatError(f'{source}: {name} is {value!r}; it must be a number')
    return float(value)
