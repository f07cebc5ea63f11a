# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Hugging Face folders whose layers are quantised by GPTQ; embedding table and head are floats."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from memspec_ros.errors import ModelFormatError, UnsupportedModelError
from memspec_ros.models.gptq_config import GptqConfig
from memspec_ros.models.gptq_matrix import (
    GptqTensors,
    check_symmetric,
    grouped_matrix,
    unpack_zeros,
)
from memspec_ros.models.matrices import INT4_BITS, Matrix
from memspec_ros.models.safetensors_folder import FLOATS, TABLE, SafetensorsFolder
from memspec_ros.models.tokenizer_files import read_json
from memspec_ros.models.weights import kernel_group

CONFIG_FILE = 'quantize_config.json'


def is_quantised(folder: Path) -> bool:
    """Whether a model folder says that its weights are quantised, by whatever method."""
    return 'quantization_config' in read_json(folder / 'config.json') \
        or bool(read_json(folder / CONFIG_FILE))


class GptqFolder(SafetensorsFolder):
    """A folder with a GPTQ model of the Llama or Qwen2 family.

    The shapes of all tensors are checked at once, from headers; symmetry against the first
    matrix's zero points.

    :raises ModelNotFoundError: the folder, its config.json or a shard is missing.
    :raises ModelFormatError: a file is damaged, or a tensor's shape is not that of the stated
        bits and group size.
    :raises UnsupportedModelError: another architecture or way of quantising.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._check_tensors()
        self._check_zeros()

    @property
    def is_4bit(self) -> bool:
        """Whether its layers are stored in 4 bits."""
        return self.gptq.bits == 4

    @property
    def table_bits(self) -> int:
        """Bits of embedding table and head, which stay as they are."""
        return 8 * self._find(TABLE)[1].dtype.itemsize

    def int4_bits(self, native: bool) -> float:
        """Return the bits that a weight of the layers takes in 4 bits, scales included."""
        matrices = [(rows, columns) for _, rows, columns in self._matrices()]
        num_bits = sum(rows * columns * (4 + self._scale_bits(columns, native))
                       for rows, columns in matrices)
        return num_bits / sum(rows * columns for rows, columns in matrices)

    def matrix(self, name: str) -> Matrix:
        """Return a weight matrix in its stored codes; tables in their stored floats."""
        if not self._is_coded(name):
            return super().matrix(name)
        stem = name.removesuffix('.weight')
        self._check_no_bias(stem)
        return grouped_matrix(f'{self.path}: {stem}', self._read_coded(stem), self.gptq)

    def _scale_bits(self, columns: int, native: bool) -> float:
        """Return bits of scales, per weight of a row; zero points are not always worth a place.

        Offsets of codes from zero points take 16 bits beyond float16, so natively both are
        float32.
        """
        if self.gptq.bits != 4:
            return INT4_BITS - 4
        group = math.gcd(self.gptq.group(columns), columns)
        if native:
            return (16 if self.gptq.symmetric else 64) / group
        return 32 / kernel_group(group)

    def _read_options(self, document: Mapping[str, Any]) -> None:
        self.gptq = GptqConfig.from_documents(
            document, read_json(self.path / CONFIG_FILE), source=str(self.path))

    def _is_coded(self, name: str) -> bool:
        return name.endswith('_proj.weight')

    def _matrices(self) -> list[tuple[str, int, int]]:
        return [(name.removesuffix('.weight'), *shape) for name, shape in self._shapes.items()
                if len(shape) == 2 and self._is_coded(name)]

    def _check_tensors(self) -> None:
        for stem, rows, columns in self._matrices():
            for part, shape in self.gptq.tensor_shapes(rows, columns).items():
                found = self._entries.get(f'{stem}.{part}')
                if found is None and part == 'g_idx':
                    continue
                path, entry = self._find(f'{stem}.{part}')
                dtypes = FLOATS if part == 'scales' else (torch.int32,)
                if entry.shape != shape or entry.dtype not in dtypes:
                    raise ModelFormatError(
                        f"{path}: tensor '{entry.name}' is {entry.dtype} {list(entry.shape)}; "
                        f'{self.gptq.bits} bits in groups of {self.gptq.group_size} need '
                        f'{"floats" if part == "scales" else "int32"} {list(shape)}')

    def _check_zeros(self) -> None:
        """Check symmetry on the first matrix, before all else is read."""
        stem = self._matrices()[0][0]
        zeros = unpack_zeros(self._read_raw(f'{stem}.qzeros'), self.gptq)
        check_symmetric(f'{self.path}: {stem}', zeros, self.gptq)

    def _read_coded(self, stem: str) -> GptqTensors:
        has_index = f'{stem}.g_idx' in self._entries
        return GptqTensors(
            qweight=self._read_raw(f'{stem}.qweight'), qzeros=self._read_raw(f'{stem}.qzeros'),
            scales=self._read_raw(f'{stem}.scales'),
            g_idx=self._read_raw(f'{stem}.g_idx') if has_index else None)

    def _check_no_bias(self, stem: str) -> None:
        """Take a bias that the architecture has not only if it is zero, as AutoGPTQ writes it."""
        name = f'{stem}.bias'
        if name not in self._shapes and name in self._entries \
                and bool(self._read_raw(name).any()):
            raise UnsupportedModelError(f"{self.path}: '{name}' is not zero; this architecture "
                                        'has no such bias')
