# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Header-only copies of the models that the Jetson params files name, and settings with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from memspec_ros.config import Settings, read_params_file
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.draft_content import open_draft_file
from memspec_ros.models.pool import Pool, PoolEntry, write_pool
from memspec_ros.testing.header_files import (
    LLAMA2_7B,
    LLAMA_160M,
    QWEN2_5_05B,
    QWEN2_5_7B,
    write_draft_headers,
    write_float_headers,
    write_gptq_headers,
)

DRAFTS = ('general', 'code', 'math', 'law', 'medical')


@dataclass(frozen=True, kw_only=True)
class JetsonModels:
    """Target and draft that a params file is written for."""

    target: DecoderConfig
    draft: DecoderConfig


JETSONS = {'orin_nano': JetsonModels(target=QWEN2_5_7B, draft=QWEN2_5_05B),
           'orin_nano_llama2': JetsonModels(target=LLAMA2_7B, draft=LLAMA_160M),
           'agx_orin': JetsonModels(target=QWEN2_5_7B, draft=QWEN2_5_05B)}


def jetson_settings(folder: Path, params_file: Path, *, dtype: str = '',
                    stored: str = 'bf16') -> Settings:
    """Write a params file's models as headers and return its settings with them.

    :param dtype: ``draft.dtype``; '' is the file's.
    :param stored: how the drafts are stored: ``bf16`` (folders), ``int8`` or ``int4`` (files).
    """
    models = JETSONS[params_file.stem]
    write_gptq_headers(folder / 'target', models.target)
    entries = tuple(_draft(folder, name, models.draft, stored) for name in DRAFTS)
    pool = Pool(name='headers', target=str(folder / 'target'), drafts=entries,
                path=folder / 'pool.yaml')
    write_pool(pool)
    changes = {'target.model': str(folder / 'target'), 'draft.pool': str(pool.path)}
    settings = Settings.from_parameters({**read_params_file(params_file), **changes})
    return settings.replace({'draft.dtype': dtype}) if dtype else settings


def _draft(folder: Path, name: str, config: DecoderConfig, stored: str) -> PoolEntry:
    if stored == 'bf16':
        write_float_headers(folder / name, config)
        return PoolEntry(name=name, domain=name, file=name, format='checkpoint', dtype=stored)
    path = folder / f'{name}.safetensors'
    write_draft_headers(path, config, stored)
    size = open_draft_file(path, name=name).file_bytes
    return PoolEntry(name=name, domain=name, file=path.name, dtype=stored, num_bytes=size,
                     kind='independent')
