# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Model files of any size that have headers and no data, for all that reads headers alone.

Data are a hole in the file, which takes no room on the disk and reads as zeros.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path

from memspec_ros.models.decoder_config import DecoderConfig, RopeSettings
from memspec_ros.models.draft_file import CARD_KEY, DraftCard
from memspec_ros.models.draft_storage import INT4_GROUP_SIZE
from memspec_ros.models.gptq_config import GptqConfig
from memspec_ros.models.gptq_writer import config_document, settings_document
from memspec_ros.models.independent_decoder import independent_shapes
from memspec_ros.models.tensor_shapes import tensor_shapes

Shape = tuple[int, ...]
ITEM_BYTES = {'F32': 4, 'F16': 2, 'BF16': 2, 'I32': 4, 'I8': 1, 'U8': 1}
SYMMETRIC_ZEROS = b'\x77'  # two zero points of 8, less one each

# From the config.json of the models named.
QWEN2_5_7B = DecoderConfig(  # Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4
    family='qwen2', vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_layers=28,
    num_heads=28, num_kv_heads=4, head_dim=128, max_context_tokens=32768, norm_epsilon=1e-6,
    rope=RopeSettings(base=1e6), qkv_bias=True)
QWEN2_5_05B = DecoderConfig(  # Qwen/Qwen2.5-0.5B-Instruct
    family='qwen2', vocab_size=151936, hidden_size=896, intermediate_size=4864, num_layers=24,
    num_heads=14, num_kv_heads=2, head_dim=64, max_context_tokens=32768, norm_epsilon=1e-6,
    rope=RopeSettings(base=1e6), qkv_bias=True, tied_head=True)
LLAMA2_7B = DecoderConfig(  # meta-llama/Llama-2-7b-chat-hf
    family='llama', vocab_size=32000, hidden_size=4096, intermediate_size=11008, num_layers=32,
    num_heads=32, num_kv_heads=32, head_dim=128, max_context_tokens=4096)
LLAMA_160M = DecoderConfig(  # JackFram/llama-160m
    family='llama', vocab_size=32000, hidden_size=768, intermediate_size=3072, num_layers=12,
    num_heads=12, num_kv_heads=12, head_dim=64, max_context_tokens=2048)


def write_header_file(path: Path, tensors: Mapping[str, tuple[str, Shape]],
                      metadata: Mapping[str, str] | None = None) -> dict[str, int]:
    """Write a safetensors file of tensors (dtype, shape); return where each begins."""
    document: dict[str, object] = {'__metadata__': dict(metadata or {})}
    offset, starts = 0, {}
    for name, (dtype, shape) in tensors.items():
        stop = offset + math.prod(shape) * ITEM_BYTES[dtype]
        document[name] = {'dtype': dtype, 'shape': list(shape), 'data_offsets': [offset, stop]}
        starts[name], offset = offset, stop
    text = json.dumps(document).encode()
    with path.open('wb') as file:
        file.write(len(text).to_bytes(8, 'little') + text)
        file.truncate(8 + len(text) + offset)
    return {name: 8 + len(text) + start for name, start in starts.items()}


def write_float_headers(folder: Path, config: DecoderConfig, dtype: str = 'BF16') -> None:
    """Write a folder of a model in floats."""
    _write_config(folder, config, None)
    write_header_file(folder / 'model.safetensors', {
        name: (dtype, shape) for name, shape in tensor_shapes(config).items()})


def write_gptq_headers(folder: Path, config: DecoderConfig, *, num_shards: int = 2) -> None:
    """Write a folder of a symmetric GPTQ model, groups of 128, in shards."""
    settings = GptqConfig(bits=4, group_size=128)
    _write_config(folder, config, settings)
    tensors: dict[str, tuple[str, Shape]] = {}
    for name, shape in tensor_shapes(config).items():
        if not name.endswith('_proj.weight'):
            tensors[name] = ('F16', shape)
            continue
        stem = name.removesuffix('.weight')
        for part, packed in settings.tensor_shapes(shape[0], shape[1]).items():
            tensors[f'{stem}.{part}'] = ('F16' if part == 'scales' else 'I32', packed)
    names, places = list(tensors), {}
    for index in range(num_shards):
        file = f'model-{index + 1:05}-of-{num_shards:05}.safetensors'
        part_of = {name: tensors[name] for name in names[index::num_shards]}
        starts = write_header_file(folder / file, part_of)
        _fill_zero_points(folder / file, part_of, starts)
        places.update(dict.fromkeys(part_of, file))
    (folder / 'model.safetensors.index.json').write_text(json.dumps({'weight_map': places}))


def _fill_zero_points(path: Path, tensors: Mapping[str, tuple[str, Shape]],
                      starts: Mapping[str, int]) -> None:
    with path.open('r+b') as file:
        for name, (dtype, shape) in tensors.items():
            if name.endswith('.qzeros') and '.layers.0.' in name:
                file.seek(starts[name])
                file.write(SYMMETRIC_ZEROS * (math.prod(shape) * ITEM_BYTES[dtype]))


def write_draft_headers(path: Path, config: DecoderConfig, storage: str) -> None:
    """Write a draft file of an independent draft in ``int8`` or ``int4``."""
    tensors: dict[str, tuple[str, Shape]] = {}
    for name, shape in independent_shapes(config).items():
        if len(shape) != 2:
            tensors[name] = ('F32', shape)
        elif storage == 'int8':
            tensors[f'{name}.scale'] = ('F32', shape[:1])
            tensors[name] = ('I8', shape)
        else:
            groups = (shape[0], shape[1] // INT4_GROUP_SIZE)
            tensors[f'{name}.scale'] = tensors[f'{name}.zero'] = ('F16', groups)
            tensors[name] = ('U8', (shape[0], shape[1] // 2))
    card = DraftCard(kind='independent', domain='x', tokenizer_checksum='', storage=storage,
                     architecture=dataclasses.asdict(config))
    write_header_file(path, tensors, {CARD_KEY: json.dumps(dataclasses.asdict(card))})


def _write_config(folder: Path, config: DecoderConfig, settings: GptqConfig | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    document = config_document(config)
    if settings is not None:
        document['quantization_config'] = settings_document(settings)
    (folder / 'config.json').write_text(json.dumps(document))
