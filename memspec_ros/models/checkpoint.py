# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Opens model files by their format, and makes decoders from them."""

from __future__ import annotations

from pathlib import Path

import torch

from memspec_ros.models.decoder import Decoder
from memspec_ros.models.gguf_file import GgufFile
from memspec_ros.models.weights import Checkpoint, load_weights


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a GGUF file.

    :raises ModelNotFoundError: there is nothing at ``path``.
    :raises ModelFormatError: it is damaged.
    :raises UnsupportedModelError: the fast decoder has not this architecture.
    """
    return GgufFile(path)


def load_decoder(path: Path | str, dtype: str = 'fp32', *, device: str = 'cpu',
                 context_tokens: int | None = None) -> Decoder:
    """Load a decoder of the Llama or Qwen2 family.

    :param dtype: weights in memory: ``fp32``, ``bf16`` or ``int4``.
    :param context_tokens: longest position served; None takes the model's.
    :raises ModelError: as :func:`open_checkpoint`.
    """
    checkpoint = open_checkpoint(Path(path))
    weights = load_weights(checkpoint, dtype=dtype, device=torch.device(device))
    return Decoder(checkpoint.config, weights, context_tokens=context_tokens)
