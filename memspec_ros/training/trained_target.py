# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The target as training needs it: fp32 weights, tokenizer, and what identifies its file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from memspec_ros.models.checkpoint import open_checkpoint
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.model_reference import resolve
from memspec_ros.models.pool_files import file_checksum
from memspec_ros.models.tokenizer import Tokenizer
from memspec_ros.models.tokenizer_files import load_tokenizer
from memspec_ros.models.weights import DecoderWeights, load_weights


@dataclass(frozen=True, kw_only=True)
class TrainedTarget:
    """A target of the Llama or Qwen2 family. ``checksum`` is the SHA-256 of its file."""

    config: DecoderConfig
    weights: DecoderWeights
    tokenizer: Tokenizer
    checksum: str

    @classmethod
    def load(cls, reference: str, *, tokenizer: str = '') -> TrainedTarget:
        """Load a target.

        :param reference: a path, ``pkg:MODULE/FILE`` or ``hf:ORG/NAME``.
        :param tokenizer: another file or folder with the tokenizer; '' takes the model's.
        :raises ModelError: it is missing, damaged or of another family.
        """
        path = resolve(reference)
        checkpoint = open_checkpoint(path)
        return cls(config=checkpoint.config, weights=load_weights(checkpoint, dtype='fp32'),
                   tokenizer=load_tokenizer(resolve(tokenizer) if tokenizer else path),
                   checksum=model_checksum(path))


def model_checksum(path: Path) -> str:
    """SHA-256 of a model file, or of a folder's weight files one after the other."""
    if path.is_file():
        return file_checksum(path)
    parts = sorted(path.glob('*.safetensors'))
    return file_checksum(parts[0]) if len(parts) == 1 else _joined(parts)


def _joined(parts: list[Path]) -> str:
    import hashlib
    return hashlib.sha256(''.join(map(file_checksum, parts)).encode()).hexdigest()
