# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""In how many bits an independent draft's matrices lie in a slot, and for which kernels."""

from __future__ import annotations

import torch

from memspec_ros.models import native_library
from memspec_ros.models.decoder_config import DecoderConfig, native_serves
from memspec_ros.models.draft_content import DraftContent
from memspec_ros.models.draft_kinds import Surroundings
from memspec_ros.models.slot_forms import Int4Tiles, Int8Rows, MatrixForm, NativeForm, Shape

AUTO = 'auto'
TABLES = ('embedding', 'head')
PROJECTION = 'embedding_projection'
_FLOATS = {torch.float32: 'fp32', torch.float16: 'fp16', torch.bfloat16: 'bf16'}


def matrix_forms(content: DraftContent, config: DecoderConfig,
                 surroundings: Surroundings) -> dict[str, MatrixForm]:
    """Return the forms of a draft's matrices; those left out are plain floats.

    On a CPU all are the native library's, or none: a draft that borrows the target's embedding,
    sizes without kernels, or a missing library leave floats. On CUDA it is 8 and 4 bits that have
    forms. With ``int4`` the tables have 8 bits, since 4 cost them too much, unless their file
    has 4.
    """
    if not surroundings.matrix_dtype or PROJECTION in content.shapes:
        return {}
    on_cpu = surroundings.device == 'cpu'
    if on_cpu and not (native_library.is_available() and native_serves(config)):
        return {}
    stored = _stored_dtypes(content)
    forms: dict[str, MatrixForm] = {}
    for name, shape in content.shapes.items():
        if len(shape) != 2:
            continue
        dtype = _dtype(name, stored[name], surroundings.matrix_dtype)
        if on_cpu:
            forms[name] = NativeForm(dtype)
        elif dtype in ('int8', 'int4'):
            forms[name] = _cuda_form(name, shape, dtype)
    return forms


def _dtype(name: str, stored: str, wanted: str) -> str:
    if wanted == AUTO:
        return stored
    return 'int8' if wanted == 'int4' and name in TABLES and stored != 'int4' else wanted


def _cuda_form(name: str, shape: Shape, dtype: str) -> MatrixForm:
    # Embedding rows are looked up one by one, which tiles do not allow.
    tiled = dtype == 'int4' and name not in TABLES and shape[0] % 16 == 0 and shape[1] % 32 == 0
    return Int4Tiles() if tiled else Int8Rows()


def _stored_dtypes(content: DraftContent) -> dict[str, str]:
    """Return how the files store each tensor; the first of the pieces that fill one counts."""
    stored: dict[str, str] = {}
    for part in content.parts:
        for piece in part.pieces:
            dtype = 'int4' if piece.zero is not None else 'int8' if piece.scale is not None \
                else _FLOATS.get(piece.values.dtype, 'fp32')
            stored.setdefault(piece.fills, dtype)
    return stored
