# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The trainable form of an independent draft: a small decoder with borrowed embeddings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

import torch
from torch.nn import functional

from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.draft_file import OUTPUT_TOKEN_IDS
from memspec_ros.models.independent_decoder import independent_shapes
from memspec_ros.training.draft_loss import Acceptance, LossOptions, SoftTargets, proposal_loss
from memspec_ros.training.feature_unroll import Step
from memspec_ros.training.slots import SlotSequence, TargetTables


class IndependentModel(torch.nn.Module):
    """An independent draft in training, on the same sequences as a feature-conditioned one.

    It sees tokens only. Its input is the target's embedding through a projection, its head is
    trimmed to rows of its own.

    :param embedding_scale: root mean square of each channel of the target's embeddings: [hidden].
    """

    tables: ClassVar[tuple[str, ...]] = ()
    slow: ClassVar[Mapping[str, float]] = {'head': 0.03}

    def __init__(self, config: DecoderConfig, embedding_scale: torch.Tensor, *, rows: int,
                 seed: int) -> None:
        super().__init__()
        self.config = config
        self.embedding_scale: torch.Tensor
        self.register_buffer('embedding_scale', embedding_scale)
        shapes = independent_shapes(config, head_rows=rows,
                                    target_hidden_size=len(embedding_scale))
        shapes.pop(OUTPUT_TOKEN_IDS)
        generator = torch.Generator().manual_seed(seed)
        # ParameterDict refuses dots in names.
        self.parts = torch.nn.ParameterDict({
            name.replace('.', '|'): torch.nn.Parameter(_initial(name, shape, generator))
            for name, shape in shapes.items()})

    @property
    def architecture(self) -> dict[str, Any]:
        """What a draft card says of the network."""
        return asdict(self.config)

    def weights(self) -> dict[str, torch.Tensor]:
        """Weights as a draft file holds them, differentiable."""
        weights = {name.replace('|', '.'): part for name, part in self.parts.items()}
        weights['embedding_projection'] = weights['embedding_projection'] / self.embedding_scale
        return weights

    @torch.no_grad()
    def load_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Take over a draft file's weights."""
        for name, part in self.parts.items():
            value = weights[name.replace('|', '.')]
            part.copy_(value * self.embedding_scale if name == 'embedding_projection' else value)

    def forward(self, sequences: list[SlotSequence], tables: TargetTables,
                options: LossOptions) -> tuple[torch.Tensor, Acceptance]:
        """Loss per proposal of one batch, and what was accepted in it."""
        weights = self.weights()
        tokens = _pad([sequence.tokens for sequence in sequences])
        is_output = _pad([sequence.is_output for sequence in sequences])
        next_tokens = _pad([sequence.next_tokens for sequence in sequences]).flatten()
        output = self._run(weights, functional.linear(tables.embedding[tokens],
                                                      weights['embedding_projection']))
        slots = is_output.flatten().nonzero()[:, 0]
        logits = functional.linear(output.flatten(0, 1)[slots], weights['head'])
        proposed = tables.row_tokens[logits.detach().argmax(1)]
        step = Step(slots=slots, proposed=proposed, right=proposed == next_tokens[slots],
                    logits=torch.cat((logits, torch.full_like(logits[:, :1], -1e9)), 1))
        soft = SoftTargets.make(sequences).at(slots, tokens.shape[1])
        loss = proposal_loss(step, soft, next_tokens[slots], torch.full_like(slots, -1), tables,
                             options)
        steps = _chains(step, is_output, options.num_steps)
        return loss / max(1, len(slots)), Acceptance.count(steps, is_output, sequences)

    def _run(self, weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        """All layers and the final norm. x: [sequences, slots, hidden]."""
        cos, sin = _rotary(self.config, x.shape[1])
        for index in range(self.config.num_layers):
            part = {name: weights[f'layers.{index}.{name}'] for name in
                    ('attention_norm', 'qkv', 'output', 'mlp_norm', 'gate_up', 'down')}
            x = x + functional.linear(self._attend(part, x, cos, sin), part['output'])
            gate, up = functional.linear(self._norm(x, part['mlp_norm']),
                                         part['gate_up']).chunk(2, -1)
            x = x + functional.linear(functional.silu(gate) * up, part['down'])
        return self._norm(x, weights['final_norm'])

    def _attend(self, part: dict[str, torch.Tensor], x: torch.Tensor, cos: torch.Tensor,
                sin: torch.Tensor) -> torch.Tensor:
        config = self.config
        fused = functional.linear(self._norm(x, part['attention_norm']), part['qkv'])
        heads = fused.view(*x.shape[:2], -1, config.head_dim).transpose(1, 2)
        query, key, value = heads.split_with_sizes(
            (config.num_heads, config.num_kv_heads, config.num_kv_heads), 1)
        groups = config.num_heads // config.num_kv_heads
        mixed = functional.scaled_dot_product_attention(
            _rotate(query, cos, sin), _rotate(key, cos, sin).repeat_interleave(groups, 1),
            value.repeat_interleave(groups, 1), is_causal=True)
        return mixed.transpose(1, 2).flatten(2)

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, weight.shape, weight, self.config.norm_epsilon)


def _chains(step: Step, is_output: torch.Tensor, num_steps: int) -> list[Step]:
    """Steps as a draft runs them: a chain lives while each proposal before was right.

    An independent draft sees true tokens as long as its proposals are true, so that all steps
    can be read off one pass.
    """
    right = torch.zeros(is_output.numel(), dtype=torch.bool)
    right[step.slots] = step.right
    right = right.view(is_output.shape)
    alive, steps = is_output, []
    for _ in range(num_steps):
        slots = alive.flatten().nonzero()[:, 0]
        steps.append(Step(slots=slots, logits=step.logits[:0], proposed=step.proposed[:0],
                          right=right.flatten()[slots]))
        alive = functional.pad((alive & right)[:, :-1], (1, 0)) & is_output
    return steps


def _pad(parts: list[torch.Tensor]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)


def _rotary(config: DecoderConfig, num_slots: int) -> tuple[torch.Tensor, torch.Tensor]:
    rates = torch.tensor(config.rope.inverse_frequencies(config.head_dim))
    angles = torch.outer(torch.arange(num_slots, dtype=torch.float32), rates)
    return angles.cos(), angles.sin()


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


def _initial(name: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    if name.endswith('norm'):
        return torch.ones(shape)
    if name.endswith(('output', 'down')):
        return torch.zeros(shape)
    return torch.randn(shape, generator=generator).div(math.sqrt(shape[1]))
