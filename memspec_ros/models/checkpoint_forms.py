# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint whose matrices come in the precision that the settings ask for."""

from __future__ import annotations

import torch

from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.matrices import (
    INT4_BITS,
    DenseMatrix,
    GroupedMatrix,
    Matrix,
    StoredMatrix,
    quantise,
)
from memspec_ros.models.weights import GROUP_COLUMNS, Checkpoint

FLOAT_DTYPES = {'fp32': torch.float32, 'bf16': torch.bfloat16}
TABLES = ('model.embed_tokens.weight', 'lm_head.weight')


class CheckpointInForm:
    """Converts matrices on their way; what already has the precision passes as it is.

    :param dtype: ``fp32``, ``bf16`` or ``int4``. With ``int4`` the embedding table and the head
        keep 8 bits, since 4 cost them too much.
    :param keeps_tables: leave table and head as they are stored with ``int4``, as those do who
        quantise by GPTQ.
    """

    def __init__(self, checkpoint: Checkpoint, dtype: str, *, keeps_tables: bool = False) -> None:
        self._checkpoint = checkpoint
        self._dtype = dtype
        self._keeps_tables = keeps_tables

    @property
    def config(self) -> DecoderConfig:
        """The decoder's shape."""
        return self._checkpoint.config

    def matrix(self, name: str) -> Matrix:
        """Return a weight matrix in the precision asked for."""
        stored = self._checkpoint.matrix(name)
        if self._dtype in FLOAT_DTYPES:
            if isinstance(stored, StoredMatrix):
                return stored.to(FLOAT_DTYPES[self._dtype])
            floats = stored.data if isinstance(stored, DenseMatrix) else stored.values()
            return DenseMatrix(data=floats.to(FLOAT_DTYPES[self._dtype]))
        if self._keeps_tables and name in TABLES:
            return stored
        num_bits = 8 if name in TABLES else 4
        if isinstance(stored, GroupedMatrix) and stored.num_bits <= num_bits:
            return stored
        return quantise(stored, num_bits=num_bits, group=GROUP_COLUMNS)

    def vector(self, name: str) -> torch.Tensor:
        """Return a norm or bias as float32."""
        return self._checkpoint.vector(name)


def weight_bytes(config: DecoderConfig, dtype: str, *, table_bits: float,
                 int4_bits: float = INT4_BITS) -> int:
    """Return the bytes of all weights in a form, to a few kilobytes.

    :param table_bits: bits that an element of embedding table and head takes.
    :param int4_bits: bits that an element of the layers takes with ``int4``, scales included.
    """
    tables = (1 if config.tied_head else 2) * config.vocab_size * config.hidden_size
    layers = config.num_weights - tables
    layer_bits = {'fp32': 32.0, 'bf16': 16.0, 'int4': int4_bits}[dtype]
    return int((layers * layer_bits + tables * table_bits) / 8)
