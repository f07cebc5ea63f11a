# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Hugging Face folders as checkpoints: ``config.json`` and one or several safetensors files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memspec_ros.errors import ModelFormatError, ModelNotFoundError, UnsupportedModelError
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.matrices import INT4_BITS, DenseMatrix, Matrix, StoredMatrix
from memspec_ros.models.safetensors_header import TensorEntry, read_header
from memspec_ros.models.tensor_shapes import tensor_shapes
from memspec_ros.models.tokenizer import Tokenizer
from memspec_ros.models.tokenizer_files import load_tokenizer, read_json

SINGLE_FILE = 'model.safetensors'
INDEX_FILE = 'model.safetensors.index.json'
LARGE_TABLE_BYTES = 64 << 20
FINGERPRINT_BYTES = 4096  # of each tensor
TABLE, HEAD = 'model.embed_tokens.weight', 'lm_head.weight'
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class SafetensorsFolder:
    """A folder with a model of the Llama or Qwen2 family, in floats.

    Headers are read at once, tensors when they are asked for, from whichever shard has them.

    :raises ModelNotFoundError: the folder, its config.json or a shard is missing.
    :raises ModelFormatError: a file is damaged.
    :raises UnsupportedModelError: another architecture, or quantised weights.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder
        document = read_json(folder / 'config.json')
        if not document:
            raise ModelNotFoundError(f'{folder} has no config.json; a model folder needs '
                                     'config.json, tokenizer.json and safetensors files')
        self.config = DecoderConfig.from_hf(document, source=str(folder / 'config.json'))
        self._read_options(document)
        self._shapes = tensor_shapes(self.config)
        self._shards = {path: read_header(path) for path in shard_paths(folder)}
        self._entries = {entry.name: (path, entry) for path, header in self._shards.items()
                         for entry in header.entries}
        self._check_head()

    @property
    def is_4bit(self) -> bool:
        """Whether its layers are stored in 4 bits."""
        return False

    @property
    def table_bits(self) -> int:
        """Bits that embedding table and head keep beside 4-bit layers; 0 lets them be rounded."""
        return 0

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors as stored."""
        return sum(header.num_weight_bytes for header in self._shards.values())

    def matrix(self, name: str) -> Matrix:
        """Return a weight matrix in its stored precision."""
        path, entry = self._checked(name)
        if name not in (TABLE, HEAD) or entry.num_bytes < LARGE_TABLE_BYTES:
            return DenseMatrix(data=self._read_raw(name))
        rows, columns = entry.shape
        return StoredMatrix(shape=(rows, columns), dtype=entry.dtype,
                            read=lambda first, last: read_rows(path, entry, first, last))

    def vector(self, name: str) -> torch.Tensor:
        """Return a norm or bias as float32."""
        return self._read(name).float()

    def int4_bits(self, native: bool) -> float:
        """Return the bits that a weight of the layers takes in 4 bits, scales included."""
        del native  # quantise() makes one form for both
        return INT4_BITS

    def load_tokenizer(self) -> Tokenizer:
        """Return the tokenizer of the folder. Raises as tokenizer_files.load_tokenizer."""
        return load_tokenizer(self.path)

    def fingerprint(self) -> str:
        """Return a hash of configuration, headers and the beginning of every tensor."""
        return fingerprint(self.path)

    def _read_options(self, document: Mapping[str, Any]) -> None:
        if 'quantization_config' in document:
            raise UnsupportedModelError(f'{self.path}: weights are quantised; this reads floats')

    def _check_head(self) -> None:
        """Compare what config.json says of the head with what the files have.

        A tied head that is stored all the same must be the embedding table.
        """
        stored = self._entries.get(HEAD)
        if stored is None and not self.config.tied_head:
            raise ModelFormatError(
                f"{self.path}: config.json says tie_word_embeddings false, but there is no "
                f"'{HEAD}' in {len(self._shards)} safetensors files")
        table = self._entries.get(TABLE)
        if stored is not None and table is not None and self.config.tied_head \
                and (stored[1].shape != table[1].shape or _beginning(*stored) != _beginning(
                    *table)):
            raise ModelFormatError(
                f"{self.path}: config.json says tie_word_embeddings true, but '{HEAD}' is not "
                f"'{TABLE}'; set tie_word_embeddings to false if the head is one of its own")

    def _read(self, name: str) -> torch.Tensor:
        self._checked(name)
        return self._read_raw(name)

    def _checked(self, name: str) -> tuple[Path, TensorEntry]:
        path, entry = self._find(name)
        if entry.shape != self._shapes[name] or entry.dtype not in FLOATS:
            raise ModelFormatError(f"{path}: tensor '{name}' is {entry.dtype} of shape "
                                   f'{list(entry.shape)}; expected floats of 16 or 32 bits of '
                                   f'shape {list(self._shapes[name])}')
        return path, entry

    def _find(self, name: str) -> tuple[Path, TensorEntry]:
        if name not in self._entries:
            raise ModelFormatError(f"{self.path}: tensor '{name}' is missing from "
                                   f'{len(self._shards)} safetensors files')
        return self._entries[name]

    def _read_raw(self, name: str) -> torch.Tensor:
        path, entry = self._find(name)
        raw = _read_bytes(path, entry, 0, entry.num_bytes)
        return raw.view(entry.dtype).view(entry.shape)


def read_rows(path: Path, entry: TensorEntry, first: int, last: int) -> torch.Tensor:
    """Read some rows of a matrix.

    :raises ModelFormatError: the file is shorter than when it was opened.
    """
    columns = entry.shape[1]
    row_bytes = columns * entry.dtype.itemsize
    raw = _read_bytes(path, entry, first * row_bytes, (last - first) * row_bytes)
    return raw.view(entry.dtype).view(last - first, columns)


def _read_bytes(path: Path, entry: TensorEntry, start: int, count: int) -> torch.Tensor:
    raw = np.fromfile(path, dtype=np.uint8, count=count, offset=entry.start + start)
    if raw.size != count:
        raise ModelFormatError(f"{path}: tensor '{entry.name}' ended after {raw.size} of "
                               f'{count} bytes; the file has changed')
    return torch.from_numpy(raw)


def shard_paths(folder: Path) -> list[Path]:
    """Return the safetensors files of a folder, by its index where there is one.

    :raises ModelFormatError: the index does not map tensors to files.
    """
    index = read_json(folder / INDEX_FILE).get('weight_map', {})
    if not isinstance(index, dict) or not all(isinstance(name, str) for name in index.values()):
        raise ModelFormatError(f'{folder / INDEX_FILE}: weight_map must map tensors to files')
    return sorted({folder / Path(name).name for name in index.values()}) or [folder / SINGLE_FILE]


def fingerprint(folder: Path) -> str:
    """Return a hash of a folder's configuration, headers and the beginning of every tensor.

    :raises ModelError: a file is missing or damaged.
    """
    digest = hashlib.sha256((folder / 'config.json').read_bytes())
    for path in shard_paths(folder):
        header = read_header(path)
        digest.update(header.raw)
        for entry in header.entries:
            digest.update(_beginning(path, entry))
    return digest.hexdigest()


def _beginning(path: Path, entry: TensorEntry) -> bytes:
    with path.open('rb') as file:
        file.seek(entry.start)
        return file.read(min(entry.num_bytes, FINGERPRINT_BYTES))
