# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Opens model files by their format, and makes decoders from them."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import torch

from memspec_ros.errors import ModelNotFoundError
from memspec_ros.models.decoder import Decoder
from memspec_ros.models.gguf_file import GgufFile
from memspec_ros.models.gptq_folder import GptqFolder, is_quantised
from memspec_ros.models.safetensors_folder import SafetensorsFolder
from memspec_ros.models.tokenizer import Tokenizer
from memspec_ros.models.weights import Checkpoint, load_weights


class ModelFile(Checkpoint, Protocol):
    """A checkpoint on disk."""

    @property
    def path(self) -> Path:
        """The file or folder."""

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors as stored."""

    @property
    def is_4bit(self) -> bool:
        """Whether its layers are stored in 4 bits."""

    @property
    def table_bits(self) -> int:
        """Bits that embedding table and head keep beside 4-bit layers; 0 lets them be rounded."""

    def int4_bits(self, native: bool) -> float:
        """Return the bits that a weight of the layers takes in 4 bits, scales included.

        :param native: in the native decoder's form, else in PyTorch's.
        """

    def load_tokenizer(self) -> Tokenizer:
        """Return the tokenizer that comes with the model.

        :raises ModelError: there is none, it is damaged, or of a kind that is not read.
        """

    def fingerprint(self) -> str:
        """Return a hash that tells models apart: of the headers and each tensor's beginning."""


def open_checkpoint(path: Path) -> ModelFile:
    """Open a GGUF file, or a folder with ``config.json`` and safetensors, floats or GPTQ.

    Reads headers only.

    :raises ModelNotFoundError: there is nothing at ``path``, or the folder lacks a file.
    :raises ModelFormatError: it is damaged.
    :raises UnsupportedModelError: the fast decoder has not this architecture.
    """
    if path.suffix == '.safetensors' and not path.is_dir():
        path = path.parent
    if path.is_dir():
        return GptqFolder(path) if is_quantised(path) else SafetensorsFolder(path)
    if not path.exists():
        raise ModelNotFoundError(f'model file {path} does not exist')
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
