# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Writes tiny GPTQ folders from the format's definition, a number at a time.

It shares nothing with the reader: codes are rounded in numpy, and put into 32-bit words with
integer arithmetic. ``dequantised`` holds the float weights that the codes stand for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.matrices import DenseMatrix
from memspec_ros.testing.model_files import hub_config, tensors_of, write_tokenizer
from memspec_ros.testing.random_checkpoint import RandomCheckpoint

STAGES = {'q_proj': 'attention', 'k_proj': 'attention', 'v_proj': 'attention',
          'o_proj': 'output', 'gate_proj': 'mlp', 'up_proj': 'mlp', 'down_proj': 'down'}


@dataclass(frozen=True, kw_only=True)
class GptqForm:
    """One way of writing GPTQ; ``group`` -1 is the whole row."""

    bits: int = 4
    group: int = 128
    symmetric: bool = True
    act_order: bool = False
    version: int = 1

    def settings(self) -> dict[str, Any]:
        return {'quant_method': 'gptq', 'bits': self.bits, 'group_size': self.group,
                'sym': self.symmetric, 'desc_act': self.act_order,
                'checkpoint_format': 'gptq' if self.version == 1 else 'gptq_v2',
                'lm_head': False, 'true_sequential': True, 'damp_percent': 0.01}


class FloatCheckpoint:
    """The float weights that a GPTQ folder stands for, as a checkpoint."""

    def __init__(self, config: DecoderConfig, tensors: dict[str, torch.Tensor]) -> None:
        self.config = config
        self.tensors = tensors

    def matrix(self, name: str) -> DenseMatrix:
        return DenseMatrix(data=self.tensors[name])

    def vector(self, name: str) -> torch.Tensor:
        return self.tensors[name]


def write_gptq(folder: Path, checkpoint: RandomCheckpoint, form: GptqForm, *,
               dtype: torch.dtype = torch.float16, num_shards: int = 1,
               settings_file: str = 'config.json', zero_biases: bool = False) -> FloatCheckpoint:
    """Write a folder and return what its codes stand for."""
    folder.mkdir(parents=True, exist_ok=True)
    stored: dict[str, torch.Tensor] = {}
    meant: dict[str, torch.Tensor] = {}
    for name, tensor in tensors_of(checkpoint).items():
        stem, _, kind = name.rpartition('.')
        if kind == 'weight' and stem.endswith('_proj'):
            parts, meant[name] = quantise_matrix(tensor, form, order_of(stem, tensor, form),
                                                 dtype)
            stored.update({f'{stem}.{part}': value for part, value in parts.items()})
            if zero_biases and f'{stem}.bias' not in tensors_of(checkpoint):
                stored[f'{stem}.bias'] = torch.zeros(tensor.shape[0], dtype=dtype)
        else:
            stored[name] = tensor.to(dtype)
            meant[name] = stored[name].float()
    write_shards(folder, stored, num_shards)
    document = hub_config(checkpoint.config)
    if settings_file == 'config.json':
        document['quantization_config'] = form.settings()
    else:
        (folder / settings_file).write_text(json.dumps(form.settings()))
    (folder / 'config.json').write_text(json.dumps(document))
    write_tokenizer(folder)
    return FloatCheckpoint(checkpoint.config, meant)


def order_of(stem: str, tensor: torch.Tensor, form: GptqForm) -> np.ndarray:
    """Columns in the order of quantisation; the matrices of a stage share it."""
    columns = np.arange(tensor.shape[1])
    if form.act_order:
        *_, layer, _, part = stem.split('.')
        seed = 10 * int(layer) + sorted(set(STAGES.values())).index(STAGES[part])
        np.random.default_rng(seed).shuffle(columns)
    return columns


def quantise_matrix(tensor: torch.Tensor, form: GptqForm, order: np.ndarray,
                    dtype: torch.dtype) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Return the tensors of one matrix, and the weights that they stand for."""
    weights = tensor.double().numpy()
    rows, columns = weights.shape
    group = columns if form.group == -1 else form.group
    num_groups = math.ceil(columns / group)
    g_idx = np.empty(columns, dtype=np.int32)
    g_idx[order] = np.arange(columns) // group
    largest = 2 ** form.bits - 1
    codes = np.empty((rows, columns), dtype=np.int64)
    zeros = np.empty((num_groups, rows), dtype=np.int64)
    scales = np.empty((num_groups, rows))
    meant = np.empty((rows, columns))
    for index in range(num_groups):
        part = g_idx == index
        low, high = weights[:, part].min(1), weights[:, part].max(1)
        low, high = np.minimum(low, 0), np.maximum(high, 0)
        if form.symmetric:
            high = np.maximum(high, -low)
            low = -high
        scale = torch.from_numpy((high - low) / largest).to(dtype).double().numpy()
        zero = np.full(rows, 2 ** (form.bits - 1)) if form.symmetric else \
            np.clip(np.rint(-low / scale), 0, largest).astype(np.int64)
        codes[:, part] = np.clip(np.rint(weights[:, part] / scale[:, None]) + zero[:, None],
                                 0, largest)
        meant[:, part] = (codes[:, part] - zero[:, None]) * scale[:, None]
        scales[index], zeros[index] = scale, zero
    stored_zeros = (zeros - 1) % 2 ** form.bits if form.version == 1 else zeros
    return ({'qweight': into_words(codes.T, form.bits),
             'qzeros': into_words(stored_zeros.T, form.bits).T.contiguous(),
             'scales': torch.from_numpy(scales).to(dtype),
             'g_idx': torch.from_numpy(g_idx)}, torch.from_numpy(meant).float())


def into_words(numbers: np.ndarray, bits: int) -> torch.Tensor:
    """Put numbers that follow each other along the first axis into 32-bit words."""
    per_word = 32 // bits
    words = np.zeros((numbers.shape[0] // per_word, numbers.shape[1]), dtype=np.uint32)
    for place in range(per_word):
        words |= numbers[place::per_word].astype(np.uint32) << np.uint32(bits * place)
    return torch.from_numpy(words.view(np.int32))


def write_shards(folder: Path, tensors: dict[str, torch.Tensor], num_shards: int) -> None:
    if num_shards == 1:
        save_file({name: value.contiguous() for name, value in tensors.items()},
                  folder / 'model.safetensors')
        return
    places = {}
    for index, names in enumerate(shares(sorted(tensors), num_shards), 1):
        file = f'model-{index:05}-of-{num_shards:05}.safetensors'
        save_file({name: tensors[name].contiguous() for name in names}, folder / file)
        places.update(dict.fromkeys(names, file))
    (folder / 'model.safetensors.index.json').write_text(json.dumps({'weight_map': places}))


def shares(names: list[str], num_shards: int) -> Iterator[list[str]]:
    for index in range(num_shards):
        yield names[index::num_shards]
