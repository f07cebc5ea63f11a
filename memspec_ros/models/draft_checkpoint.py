# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Plain Hugging Face checkpoints as drafts: a folder with config.json and safetensors.

Described from headers alone. Separate q, k, v and gate, up projections fill the fused tensors of
the slot piece by piece, so nothing is converted beforehand.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from memspec_ros.errors import ModelFormatError, ModelNotFoundError
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.draft_content import DraftContent, FilePart, Piece, file_part
from memspec_ros.models.draft_storage import FLOAT_DTYPES
from memspec_ros.models.independent_decoder import independent_shapes
from memspec_ros.models.safetensors_header import SafetensorsHeader, read_header
from memspec_ros.models.tokenizer_files import read_json

SINGLE_FILE = 'model.safetensors'
INDEX_FILE = 'model.safetensors.index.json'


def open_checkpoint_draft(folder: Path, *, name: str, checksum: str = '') -> DraftContent:
    """Describe a checkpoint folder as an independent draft.

    :param checksum: SHA-256 of its safetensors file, where it has one only; '' checks none.
    :raises ModelNotFoundError: the folder, config.json or a shard is missing.
    :raises ModelFormatError: a file is damaged, or a tensor missing or of another shape.
    :raises UnsupportedModelError: not of the Llama or Qwen2 family.
    """
    config = read_draft_config(folder)
    headers = [read_header(path) for path in _shards(folder)]
    shapes = independent_shapes(config)
    wanted = {source: (fills, row) for source, fills, row in _sources(config)}
    parts = [_part(header, wanted, checksum if len(headers) == 1 else '') for header in headers]
    _check_filled(folder, parts, shapes)
    return DraftContent(name=name, kind='independent', tokenizer_checksum='', shapes=shapes,
                        architecture=dataclasses.asdict(config), parts=tuple(parts))


def read_draft_config(folder: Path) -> DecoderConfig:
    """Read the shape of a checkpoint's decoder. Raises as above."""
    document = read_json(folder / 'config.json')
    if not document:
        raise ModelNotFoundError(f'{folder} has no config.json; a draft checkpoint is a folder '
                                 'with config.json, tokenizer.json and safetensors files')
    return DecoderConfig.from_hf(document, source=str(folder / 'config.json'))


def _shards(folder: Path) -> list[Path]:
    index = read_json(folder / INDEX_FILE)
    names = index.get('weight_map', {})
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise ModelFormatError(f'{folder / INDEX_FILE}: weight_map must map tensors to files')
    files = sorted({folder / Path(name).name for name in names.values()})
    return files or [folder / SINGLE_FILE]


def _sources(config: DecoderConfig) -> Iterator[tuple[str, str, int]]:
    """Yield a checkpoint's tensor, the slot's tensor that it fills, and from which row on."""
    yield 'model.embed_tokens.weight', 'embedding', 0
    yield 'model.norm.weight', 'final_norm', 0
    if not config.tied_head:
        yield 'lm_head.weight', 'head', 0
    offsets = {'q': 0, 'k': config.query_size, 'v': config.query_size + config.kv_size}
    for index in range(config.num_layers):
        source, fills = f'model.layers.{index}', f'layers.{index}'
        yield f'{source}.input_layernorm.weight', f'{fills}.attention_norm', 0
        yield f'{source}.post_attention_layernorm.weight', f'{fills}.mlp_norm', 0
        for part, row in offsets.items():
            yield f'{source}.self_attn.{part}_proj.weight', f'{fills}.qkv', row
            if config.qkv_bias:
                yield f'{source}.self_attn.{part}_proj.bias', f'{fills}.qkv_bias', row
        yield f'{source}.self_attn.o_proj.weight', f'{fills}.output', 0
        yield f'{source}.mlp.gate_proj.weight', f'{fills}.gate_up', 0
        yield f'{source}.mlp.up_proj.weight', f'{fills}.gate_up', config.intermediate_size
        yield f'{source}.mlp.down_proj.weight', f'{fills}.down', 0


def _part(header: SafetensorsHeader, wanted: Mapping[str, tuple[str, int]],
          checksum: str) -> FilePart:
    pieces = []
    for entry in header.entries:
        if entry.name not in wanted:
            continue
        if entry.dtype not in FLOAT_DTYPES.values():
            raise ModelFormatError(f"{header.path}: tensor '{entry.name}' is {entry.dtype}; a "
                                   'draft checkpoint has floats of 16 or 32 bits')
        fills, row = wanted[entry.name]
        pieces.append(Piece(values=entry, fills=fills, first_row=row))
    return file_part(header, tuple(pieces), checksum, 0)


def _check_filled(folder: Path, parts: list[FilePart],
                  shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that the pieces fill each tensor exactly: their rows add up, columns agree."""
    filled = dict.fromkeys(shapes, 0)
    for part in parts:
        for piece in part.pieces:
            if piece.values.shape[1:] != shapes[piece.fills][1:]:
                raise ModelFormatError(f"{part.path}: tensor '{piece.values.name}' is "
                                       f'{list(piece.values.shape)}; as part of {piece.fills} '
                                       f'{list(shapes[piece.fills])} it cannot be')
            filled[piece.fills] += math.prod(piece.values.shape)
    for name, count in filled.items():
        if count != math.prod(shapes[name]):
            raise ModelFormatError(f'{folder}: its tensors fill {count} of the '
                                   f'{math.prod(shapes[name])} weights of {name}')
