# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The sizes in a Hugging Face ``config.json`` of any architecture, without transformers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memspec_ros.errors import ModelFormatError, ModelNotFoundError, UnsupportedModelError
from memspec_ros.models.safetensors_folder import shard_paths
from memspec_ros.models.safetensors_header import read_header
from memspec_ros.models.tokenizer_files import read_json

_HIDDEN = ('hidden_size', 'n_embd', 'd_model')
_LAYERS = ('num_hidden_layers', 'n_layer', 'num_layers')
_HEADS = ('num_attention_heads', 'n_head', 'num_heads')
_KV_HEADS = ('num_key_value_heads', 'multi_query_group_num', *_HEADS)


@dataclass(frozen=True, kw_only=True)
class HubConfig:
    """Sizes of a model that the transformers backend is to run.

    :param kv_size: elements of one token's keys in one layer.
    :param window: positions that some layer's attention is limited to; 0 is none.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    kv_size: int
    window: int

    def num_weights(self, folder: Path) -> int:
        """Count the weights in the folder's safetensors headers.

        :raises ModelError: a file is missing or damaged.
        """
        return sum(math.prod(entry.shape) for path in shard_paths(folder)
                   for entry in read_header(path).entries)


def read_hub_config(folder: Path) -> HubConfig:
    """Read ``config.json``.

    :raises ModelNotFoundError: there is none.
    :raises ModelFormatError: a size is missing or not a positive integer.
    :raises UnsupportedModelError: weights are quantised, or layers keep a state that cannot be
        rolled back.
    """
    if not folder.is_dir():
        raise UnsupportedModelError(f'{folder} is no folder; the transformers backend needs one '
                                    'with config.json and safetensors files')
    document = read_json(folder / 'config.json')
    if not document:
        raise ModelNotFoundError(f'{folder} has no config.json')
    if 'quantization_config' in document:
        raise UnsupportedModelError(f'{folder}: weights are quantised; the transformers backend '
                                    'reads floats')
    source = str(folder / 'config.json')
    text = document.get('text_config', document)
    if not isinstance(text, dict):
        raise ModelFormatError(f'{source}: text_config is not an object')
    _refuse_states(text, source)
    heads, hidden = _size(text, _HEADS, source), _size(text, _HIDDEN, source)
    head_dim = _size({'head_dim': hidden // heads, **_present(text, 'head_dim')},
                     ('head_dim',), source)
    return HubConfig(
        architecture=str(document.get('model_type', '')), hidden_size=hidden,
        vocab_size=_size(text, ('vocab_size',), source),
        num_layers=_size(text, _LAYERS, source),
        kv_size=_size(text, _KV_HEADS, source) * head_dim, window=_window(text))


def _present(text: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {name: text[name]} if text.get(name) is not None else {}


def _size(text: Mapping[str, Any], names: tuple[str, ...], source: str) -> int:
    for name in names:
        value = text.get(name)
        if value is None:
            continue
        if type(value) is not int or not 1 <= value < 1 << 31:
            raise ModelFormatError(f'{source}: {name} is {value!r}; it must be a positive integer')
        return value
    raise ModelFormatError(f'{source} has none of {", ".join(names)}')


def _refuse_states(text: Mapping[str, Any], source: str) -> None:
    kinds = set(text.get('layer_types') or ()) - {'full_attention', 'sliding_attention'}
    if kinds:
        raise UnsupportedModelError(
            f'{source}: layers of kind {", ".join(sorted(map(str, kinds)))} keep a state that '
            'cannot be rolled back, as speculative decoding needs')


def _window(text: Mapping[str, Any]) -> int:
    kinds = text.get('layer_types')
    limited = 'sliding_attention' in kinds if kinds else text.get('use_sliding_window', True)
    window = text.get('sliding_window')
    return window if limited and type(window) is int else 0
