# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a target will take, known from settings and file headers before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from memspec_ros.config import TargetSettings
from memspec_ros.errors import ConfigError, UnsupportedModelError
from memspec_ros.models import native_library
from memspec_ros.models.checkpoint import ModelFile, open_checkpoint
from memspec_ros.models.checkpoint_forms import weight_bytes
from memspec_ros.models.decoder_config import native_serves
from memspec_ros.models.fast_target import BLOCK_TOKENS
from memspec_ros.models.hidden_ring import MIN_POSITIONS
from memspec_ros.models.model_reference import resolve
from memspec_ros.models.transformers_config import HubConfig, read_hub_config
from memspec_ros.models.weights import head_form

NATIVE, TORCH, TRANSFORMERS = 'native', 'torch', 'transformers'
_BYTES = {'fp32': 4, 'bf16': 2}


@dataclass(frozen=True, kw_only=True)
class TargetDescription:
    """One target as it will be loaded.

    :param backend: ``native`` (our C++ pass), ``torch`` (our decoder on PyTorch's kernels) or
        ``transformers``.
    :param weight_bytes: weights in memory; ``kv_bytes`` KV cache and hidden states;
        ``workspace_bytes`` what a pass needs beside them.
    """

    path: Path
    name: str
    architecture: str
    backend: str
    dtype: str
    device: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    context_tokens: int
    weight_bytes: int
    kv_bytes: int
    workspace_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.weight_bytes + self.kv_bytes + self.workspace_bytes


def describe_target(settings: TargetSettings, roots: Sequence[Path] = (), *,
                    elsewhere: bool = False) -> TargetDescription:
    """Describe the target that the settings name; reads headers only.

    :param roots: folders that a relative path is looked for in, before the working directory.
    :param elsewhere: describe it for another machine, which has the device that is asked for.
    :raises ConfigError: no model is named, or ``cuda`` is asked for where there is none.
    :raises ModelError: the file is missing, damaged, or of an architecture that nothing serves.
    """
    return inspect_target(settings, roots, elsewhere=elsewhere)[0]


def inspect_target(settings: TargetSettings, roots: Sequence[Path] = (), *,
                   elsewhere: bool = False,
                   ) -> tuple[TargetDescription, ModelFile | None]:
    """Return the description and the opened file, None when transformers is to read it.

    Raises as :func:`describe_target`.
    """
    path = resolve(settings.model, roots)
    asked_for = elsewhere and settings.device == 'cuda'
    device = 'cuda' if asked_for else choose_device(settings.device)
    if settings.backend != TRANSFORMERS:
        try:
            file = open_checkpoint(path)
            return _describe_fast(settings, file, device), file
        except UnsupportedModelError:
            if settings.backend == 'fast' or not path.is_dir():
                raise
    return _describe_transformers(settings, path, read_hub_config(path), device), None


def choose_device(wanted: str) -> str:
    """Return ``cpu`` or ``cuda``.

    :raises ConfigError: ``cuda`` is asked for and there is none.
    """
    if wanted == 'cuda' and not torch.cuda.is_available():
        raise ConfigError("target.device is 'cuda', but PyTorch sees no CUDA device here; use "
                          "'auto' or 'cpu'")
    return 'cuda' if wanted != 'cpu' and torch.cuda.is_available() else 'cpu'


def _describe_fast(settings: TargetSettings, file: ModelFile, device: str) -> TargetDescription:
    config = file.config
    _check_context(settings, file)
    dtype = settings.dtype
    if dtype == 'auto':
        dtype = 'int4' if file.is_4bit else 'bf16'
    native = device == 'cpu' and native_serves(config) and native_library.is_available()
    kv_element, hidden_element = _state_bytes(dtype, native)
    room = -(-settings.context_tokens // BLOCK_TOKENS) * BLOCK_TOKENS
    ring = _ring_positions(settings) * config.hidden_size * hidden_element
    return TargetDescription(
        path=file.path, name=_name_of(file.path), architecture=config.family,
        backend=NATIVE if native else TORCH, dtype=dtype, device=device,
        vocab_size=config.vocab_size, hidden_size=config.hidden_size,
        num_layers=config.num_layers, context_tokens=settings.context_tokens,
        weight_bytes=_fast_weight_bytes(file, dtype, native, device),
        kv_bytes=room * config.kv_bytes_per_token(kv_element) + ring,
        workspace_bytes=_pass_bytes(settings.prefill_chunk_tokens, config.vocab_size,
                                    config.hidden_size + config.intermediate_size))


def _check_context(settings: TargetSettings, file: ModelFile) -> None:
    longest = file.config.max_context_tokens
    if settings.context_tokens > longest:
        raise ConfigError(f'target.context_tokens is {settings.context_tokens}; {file.path} was '
                          f'trained for {longest}')


def _ring_positions(settings: TargetSettings) -> int:
    return min(settings.context_tokens, 2 * MIN_POSITIONS)


def _state_bytes(dtype: str, native: bool) -> tuple[int, int]:
    """Return bytes of an element of the KV cache and of a hidden state."""
    if native:
        return (4 if dtype == 'fp32' else 2), 4
    return _BYTES.get(dtype, 2), _BYTES.get(dtype, 2)


def _fast_weight_bytes(file: ModelFile, dtype: str, native: bool, device: str) -> int:
    int4_bits = file.int4_bits(native)
    if native and dtype == 'int4':
        stored_bits = 8.0 * file.num_bytes / file.config.num_weights
        if file.is_4bit and not file.table_bits and stored_bits < 10.0:
            return file.num_bytes
        return weight_bytes(file.config, dtype, int4_bits=int4_bits,
                            table_bits=file.table_bits or 8.5)
    table_form = dtype if native else head_form(dtype, torch.device(device))
    return weight_bytes(file.config, dtype, int4_bits=int4_bits,
                        table_bits=8.0 * _BYTES[table_form])


def _pass_bytes(width: int, vocab_size: int, layer_size: int) -> int:
    """Estimate what one pass allocates: a layer's activations, and logits of 16 positions."""
    return 4 * (8 * max(width, BLOCK_TOKENS) * layer_size + 2 * BLOCK_TOKENS * vocab_size)


def _describe_transformers(settings: TargetSettings, path: Path, config: HubConfig,
                           device: str) -> TargetDescription:
    dtype = 'bf16' if settings.dtype == 'auto' else settings.dtype
    if dtype not in _BYTES:
        raise ConfigError(f"target.dtype is '{dtype}'; the transformers backend has bf16 and "
                          'fp32')
    if settings.deterministic:
        raise ConfigError('target.deterministic is set; the transformers backend cannot keep it')
    if 0 < config.window < settings.context_tokens:
        raise UnsupportedModelError(
            f'{path}: attention slides over {config.window} positions, which cannot be rolled '
            f'back; target.context_tokens is {settings.context_tokens}, it must not be more')
    per_token = 2 * config.num_layers * config.kv_size * _BYTES[dtype]
    return TargetDescription(
        path=path, name=_name_of(path), architecture=config.architecture, backend=TRANSFORMERS,
        dtype=dtype, device=device, vocab_size=config.vocab_size, num_layers=config.num_layers,
        hidden_size=config.hidden_size, context_tokens=settings.context_tokens,
        weight_bytes=config.num_weights(path) * _BYTES[dtype],
        kv_bytes=(settings.context_tokens * per_token
                  + _ring_positions(settings) * config.hidden_size * _BYTES[dtype]),
        workspace_bytes=_pass_bytes(
            settings.prefill_chunk_tokens, config.vocab_size, 4 * config.hidden_size))


def _name_of(path: Path) -> str:
    return path.name if path.is_dir() else path.stem
