# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with random weights, for tests that need a decoder and no model file."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import torch

from memspec_ros.models.decoder import Decoder
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.matrices import DenseMatrix, Matrix
from memspec_ros.models.tensor_shapes import tensor_shapes
from memspec_ros.models.weights import load_weights


def tiny_config(**changes: Any) -> DecoderConfig:
    """Return the configuration of a decoder that runs in a millisecond."""
    sizes: dict[str, Any] = {
        'family': 'llama', 'vocab_size': 160, 'hidden_size': 64, 'intermediate_size': 96,
        'num_layers': 2, 'num_heads': 4, 'num_kv_heads': 2, 'head_dim': 16,
        'max_context_tokens': 2048, 'tied_head': True}
    return DecoderConfig(**{**sizes, **changes})


class RandomCheckpoint:
    """A :class:`~memspec_ros.models.weights.Checkpoint` whose tensors follow from names and seed.

    Matrices keep the size of what they multiply, so that activations stay near 1.
    """

    def __init__(self, config: DecoderConfig, seed: int = 0) -> None:
        self.config = config
        self._seed = seed
        self._shapes = tensor_shapes(config)

    def matrix(self, name: str) -> Matrix:
        """Return a matrix, [out_features, in_features]."""
        rows, columns = self._shapes[name]
        return DenseMatrix(data=self._draw(name, rows, columns) / math.sqrt(columns))

    def vector(self, name: str) -> torch.Tensor:
        """Return a norm's weight (around 1) or a bias (around 0)."""
        drawn = 0.2 * self._draw(name, *self._shapes[name])
        return drawn if name.endswith('.bias') else 1.0 + drawn

    def _draw(self, name: str, *shape: int) -> torch.Tensor:
        digest = hashlib.sha256(f'{self._seed} {name}'.encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:6], 'little'))
        return torch.randn(*shape, generator=generator)


def random_decoder(config: DecoderConfig | None = None, *, seed: int = 0,
                   dtype: str = 'fp32') -> Decoder:
    """Return a decoder with random weights."""
    config = config or tiny_config()
    return Decoder(config, load_weights(RandomCheckpoint(config, seed), dtype=dtype))
