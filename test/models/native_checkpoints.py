# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Random checkpoints in the forms that the native decoder packs."""

from __future__ import annotations

import torch

from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.matrices import DenseMatrix, GroupedMatrix, Matrix, quantise

SMALL = {'vocab_size': 203, 'hidden_size': 64, 'intermediate_size': 96, 'num_layers': 3,
         'num_heads': 4, 'num_kv_heads': 2, 'head_dim': 16, 'max_context_tokens': 512}


def small_config(**changes) -> DecoderConfig:
    return DecoderConfig(**{'family': 'llama', 'tied_head': True, **SMALL, **changes})


def random_grouped(rows: int, columns: int, *, num_bits: int, group: int, minima: str,
                   halves: bool = True) -> GroupedMatrix:
    """Return random codes; ``minima`` is 'stored', 'centred' or 'none'."""
    scales = torch.rand(rows, columns // group) * 0.02 + 0.001
    low = -(torch.rand_like(scales) * 8 + 4) * scales
    if halves:
        scales, low = scales.half().float(), low.half().float()
    if num_bits == 8:
        codes = torch.randint(-128, 128, (rows, columns), dtype=torch.int8)
    else:
        codes = torch.randint(0, 16, (rows, columns), dtype=torch.uint8)
    stored = {'stored': low, 'centred': -8.0 * scales, 'none': None}[minima]
    return GroupedMatrix(codes=codes, scales=scales, minima=stored, num_bits=num_bits)


class RandomCheckpoint:
    """Weights of a plausible size; ``form`` is fp32, fp16, bf16, int8 or int4."""

    def __init__(self, config: DecoderConfig, form: str, seed: int = 0) -> None:
        self.config = config
        self._form = form
        self._generator = torch.Generator().manual_seed(seed)
        self._made: dict[str, Matrix | torch.Tensor] = {}

    def matrix(self, name: str) -> Matrix:
        if name not in self._made:
            self._made[name] = self._make(*self._shape(name))
        return self._made[name]

    def vector(self, name: str) -> torch.Tensor:
        if name not in self._made:
            size = self.config.hidden_size
            if name.endswith('bias'):
                size = self._shape(name)[0]
            noise = torch.randn(size, generator=self._generator)
            self._made[name] = noise * 0.5 if name.endswith('bias') else 1.0 + 0.1 * noise
        return self._made[name]

    def _shape(self, name: str) -> tuple[int, int]:
        c = self.config
        part = name.split('.')[-2]
        return {'embed_tokens': (c.vocab_size, c.hidden_size),
                'lm_head': (c.vocab_size, c.hidden_size),
                'q_proj': (c.query_size, c.hidden_size), 'k_proj': (c.kv_size, c.hidden_size),
                'v_proj': (c.kv_size, c.hidden_size), 'o_proj': (c.hidden_size, c.query_size),
                'gate_proj': (c.intermediate_size, c.hidden_size),
                'up_proj': (c.intermediate_size, c.hidden_size),
                'down_proj': (c.hidden_size, c.intermediate_size)}[part]

    def _make(self, rows: int, columns: int) -> Matrix:
        values = torch.randn(rows, columns, generator=self._generator) * columns ** -0.5
        if self._form == 'int8':
            return quantise(DenseMatrix(data=values), num_bits=8, group=32)
        if self._form == 'int4':
            return quantise(DenseMatrix(data=values), num_bits=4, group=32)
        dtype = {'fp32': torch.float32, 'fp16': torch.float16, 'bf16': torch.bfloat16}
        return DenseMatrix(data=values.to(dtype[self._form]))
