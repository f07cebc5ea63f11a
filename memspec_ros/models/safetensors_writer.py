# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Writes safetensors files whose bytes depend on their content only.

The library's own writer orders metadata differently in every process, so that equal corpora
would not be equal files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from memspec_ros.atomic_file import written_beside

_NAMES = {torch.float32: 'F32', torch.float16: 'F16', torch.bfloat16: 'BF16',
          torch.int64: 'I64', torch.int32: 'I32', torch.int8: 'I8', torch.uint8: 'U8',
          torch.bool: 'BOOL'}


def write_safetensors(path: Path, tensors: Mapping[str, torch.Tensor],
                      metadata: Mapping[str, str]) -> None:
    """Write tensors in the given order, beside ``path`` and renamed.

    :raises DataError: the disk refuses it.
    """
    with written_beside(path) as file:
        file.write(_header(tensors, metadata))
        for tensor in tensors.values():
            file.write(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())


def _header(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> bytes:
    document: dict[str, Any] = {'__metadata__': dict(sorted(metadata.items()))}
    offset = 0
    for name, tensor in tensors.items():
        stop = offset + tensor.numel() * tensor.element_size()
        document[name] = {'dtype': _NAMES[tensor.dtype], 'shape': list(tensor.shape),
                          'data_offsets': [offset, stop]}
        offset = stop
    text = json.dumps(document).encode()
    text += b' ' * (-len(text) % 8)
    return len(text).to_bytes(8, 'little') + text
