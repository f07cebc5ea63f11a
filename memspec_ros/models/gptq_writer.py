# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Writes GPTQ folders, codes chosen by rounding to nearest; for tests and for models of one's own.

Rounding needs no calibration text and is quick, but loses more than GPTQ's own method: for that
use gptqmodel, whose folders are read as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from memspec_ros.atomic_file import written_beside
from memspec_ros.errors import DataError, UnsupportedModelError
from memspec_ros.models.checkpoint import ModelFile
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.gptq_config import V2, GptqConfig
from memspec_ros.models.safetensors_folder import INDEX_FILE, SINGLE_FILE
from memspec_ros.models.safetensors_writer import write_safetensors
from memspec_ros.models.tensor_shapes import tensor_shapes

SHARD_BYTES = 2 * 10**9
# Ranges tried for each group, as shares of the full one; the one of least square error is taken.
RANGES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)
MANY_WEIGHTS = 1 << 22  # rounded at once

Report = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class RoundedGroups:
    """Codes [rows, columns] of 0..15, scales (float16) and zero points [rows, groups]."""

    codes: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor


def write_gptq_folder(source: ModelFile, folder: Path, *, group_size: int = 128,
                      symmetric: bool = True, report: Report = lambda _: None) -> int:
    """Write a 4-bit GPTQ folder of a model and return the bytes of its tensors.

    Takes the memory of one shard at a time. Symmetric zero points are the same in both versions
    of the format, others are written as version 2, which can hold all of them.

    :raises UnsupportedModelError: rows or columns that the format cannot hold.
    :raises DataError: the folder cannot be written, or a weight is out of float16's range.
    """
    # Symmetric: version 1, which every reader knows.
    settings = GptqConfig(bits=4, group_size=group_size, symmetric=symmetric) if symmetric else \
        GptqConfig(bits=4, group_size=group_size, symmetric=False, checkpoint_format=V2)
    _check_shapes(source.config)
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / 'config.json', {**config_document(source.config),
                                         'quantization_config': settings_document(settings)})
    source.load_tokenizer().save(folder)
    shards = list(_shards(source.config, settings))
    places: dict[str, str] = {}
    num_bytes = 0
    for index, names in enumerate(shards, 1):
        file = SINGLE_FILE if len(shards) == 1 else \
            f'model-{index:05}-of-{len(shards):05}.safetensors'
        report(f'{folder / file}: {len(names)} tensors')
        tensors = {part: tensor for name in names
                   for part, tensor in _stored(source, name, settings)}
        write_safetensors(folder / file, tensors, {'format': 'pt'})
        places.update(dict.fromkeys(tensors, file))
        num_bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    if len(shards) > 1:
        _write_json(folder / INDEX_FILE, {'metadata': {'total_size': num_bytes},
                                          'weight_map': places})
    return num_bytes


def settings_document(settings: GptqConfig) -> dict[str, Any]:
    """Return the settings as ``quantization_config`` has them."""
    return {'quant_method': 'gptq', 'bits': settings.bits, 'group_size': settings.group_size,
            'sym': settings.symmetric, 'desc_act': settings.act_order, 'lm_head': False,
            'checkpoint_format': settings.checkpoint_format}


def config_document(config: DecoderConfig) -> dict[str, Any]:
    """Return a configuration as ``config.json`` has it.

    :raises UnsupportedModelError: its rotary embedding cannot be said there.
    """
    rope = config.rope
    if rope.frequency_divisors:
        raise UnsupportedModelError('the model lists its rotary frequencies one by one, which '
                                    'config.json cannot say')
    scaling = {} if rope.scaling == 'default' else {'rope_scaling': {
        'rope_type': rope.scaling, 'factor': rope.factor,
        'low_freq_factor': rope.low_freq_factor, 'high_freq_factor': rope.high_freq_factor,
        'original_max_position_embeddings': rope.original_context}}
    return {
        'model_type': config.family, 'torch_dtype': 'float16',
        'architectures': ['LlamaForCausalLM' if config.family == 'llama'
                          else 'Qwen2ForCausalLM'],
        'vocab_size': config.vocab_size, 'hidden_size': config.hidden_size,
        'intermediate_size': config.intermediate_size, 'num_hidden_layers': config.num_layers,
        'num_attention_heads': config.num_heads, 'num_key_value_heads': config.num_kv_heads,
        'head_dim': config.head_dim, 'max_position_embeddings': config.max_context_tokens,
        'rms_norm_eps': config.norm_epsilon, 'rope_theta': rope.base, **scaling,
        'tie_word_embeddings': config.tied_head, 'hidden_act': 'silu'}


def round_groups(weights: torch.Tensor, group: int, *, symmetric: bool) -> RoundedGroups:
    """Round float32 weights [rows, columns] to 4 bits, some rows at a time.

    :param group: columns that share a scale; the last group may be shorter.
    """
    rows, columns = weights.shape
    step = max(1, MANY_WEIGHTS // columns)
    parts = [_round_rows(weights[row:row + step], group, symmetric)
             for row in range(0, rows, step)]
    return RoundedGroups(**{name: torch.cat([getattr(part, name) for part in parts])
                            for name in ('codes', 'scales', 'zeros')})


def _round_rows(weights: torch.Tensor, group: int, symmetric: bool) -> RoundedGroups:
    rows, columns = weights.shape
    padding = -columns % group
    grouped = torch.nn.functional.pad(weights, (0, padding)).view(rows, -1, group)
    low, high = grouped.amin(-1).clamp(max=0.0), grouped.amax(-1).clamp(min=0.0)
    if symmetric:
        high = torch.maximum(high, -low)
        low = -high
    best, least = None, torch.full_like(low, torch.inf)
    for share in RANGES:
        scales = (share * (high - low) / 15.0).half().clamp(min=2.0 ** -14)
        wide = scales.float()
        zeros = torch.full_like(low, 8.0) if symmetric else (-share * low / wide).round()
        zeros = zeros.clamp(0, 15)
        codes = (grouped / wide[..., None]).round_().add_(zeros[..., None]).clamp_(0, 15)
        meant = (codes - zeros[..., None]) * wide[..., None]
        error = (meant - grouped).square_().sum(-1)
        better = error < least
        found = (codes, scales, zeros)
        best = found if best is None else (
            torch.where(better[..., None], codes, best[0]),
            torch.where(better, scales, best[1]), torch.where(better, zeros, best[2]))
        least = torch.minimum(error, least)
    assert best is not None
    codes, scales, zeros = best
    return RoundedGroups(codes=codes.view(rows, -1)[:, :columns].to(torch.uint8), scales=scales,
                         zeros=zeros.to(torch.uint8))


def pack_words(codes: torch.Tensor) -> torch.Tensor:
    """Pack 4-bit codes [n, m] along the second axis: int32 words [n, m / 8]."""
    halves = codes[:, 0::2] | (codes[:, 1::2] << 4)
    return halves.contiguous().view(-1).view(torch.int32).view(codes.shape[0], -1)


def _stored(source: ModelFile, name: str,
            settings: GptqConfig) -> Iterator[tuple[str, torch.Tensor]]:
    if not name.endswith('_proj.weight'):
        is_matrix = len(tensor_shapes(source.config)[name]) == 2
        values = source.matrix(name).values() if is_matrix else source.vector(name)
        halves = values.half()
        if not halves.isfinite().all():
            raise DataError(f"tensor '{name}' has a value beyond float16's range")
        yield name, halves
        return
    stem = name.removesuffix('.weight')
    weights = source.matrix(name).values()
    columns = weights.shape[1]
    group = settings.group(columns)
    rounded = round_groups(weights, group, symmetric=settings.symmetric)
    stored_zeros = (rounded.zeros - settings.zero_shift) & 15
    yield f'{stem}.qweight', pack_words(rounded.codes).t().contiguous()
    yield f'{stem}.qzeros', pack_words(stored_zeros.t())
    yield f'{stem}.scales', rounded.scales.t().contiguous()
    yield f'{stem}.g_idx', (torch.arange(columns) // group).to(torch.int32)


def _check_shapes(config: DecoderConfig) -> None:
    for name, shape in tensor_shapes(config).items():
        if name.endswith('_proj.weight') and (shape[0] % 8 or shape[1] % 8):
            raise UnsupportedModelError(f"'{name}' is {list(shape)}; GPTQ in 4 bits takes rows "
                                        'and columns that are multiples of 8')


def _shards(config: DecoderConfig, settings: GptqConfig) -> Iterator[list[str]]:
    """Yield the names of each shard's weights, a table first."""
    names: list[str] = []
    taken = 0
    for name, shape in tensor_shapes(config).items():
        size = 2 * shape[0] * shape[-1] if len(shape) == 2 else 2 * shape[0]
        if name.endswith('_proj.weight'):
            size = shape[0] * shape[1] // 2 + 5 * shape[0] * settings.num_groups(shape[1]) // 2
        if names and taken + size > SHARD_BYTES:
            yield names
            names, taken = [], 0
        names.append(name)
        taken += size
    yield names


def _write_json(path: Path, document: dict[str, Any]) -> None:
    with written_beside(path) as file:
        file.write((json.dumps(document, indent=2) + '\n').encode())
