# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The trainable form of a feature-conditioned draft, and its loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

import torch

from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.training.draft_loss import Acceptance, LossOptions, SoftTargets, proposal_loss
from memspec_ros.training.feature_unroll import unroll
from memspec_ros.training.slots import SlotSequence, TargetTables, make_batch

TABLES = ('match_in', 'distance')


class FeatureModel(torch.nn.Module):
    """A feature-conditioned draft in training.

    Matrices that meet the target's states and embeddings are kept for inputs of unit scale (a
    few channels of the target are a hundred times the others), and scaled when used.

    :param scales: per channel, of the target's ``state`` and ``embedding``: [hidden] each.
    """

    tables: ClassVar[tuple[str, ...]] = TABLES
    slow: ClassVar[Mapping[str, float]] = {'out': 0.03}

    def __init__(self, config: FeatureConfig, scales: Mapping[str, torch.Tensor], *,
                 seed: int) -> None:
        super().__init__()
        self.config = config
        self.state_scale: torch.Tensor
        self.embedding_scale: torch.Tensor
        self.register_buffer('state_scale', scales['state'])
        self.register_buffer('embedding_scale', scales['embedding'])
        generator = torch.Generator().manual_seed(seed)
        self.parts = torch.nn.ParameterDict({
            name: torch.nn.Parameter(_initial(name, shape, generator))
            for name, shape in config.shapes().items()})

    @property
    def architecture(self) -> dict[str, Any]:
        """What a draft card says of the network."""
        return asdict(self.config)

    def weights(self) -> dict[str, torch.Tensor]:
        """Weights as a draft file holds them, differentiable."""
        weights = dict(self.parts.items())
        weights['state_in'] = weights['state_in'] / self.state_scale
        for name in ('token_in', 'copy_in'):
            weights[name] = weights[name] / self.embedding_scale
        weights['out'] = weights['out'] / self.embedding_scale[:, None]
        return weights

    @torch.no_grad()
    def load_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Take over a draft file's weights (the inverse of :meth:`weights`)."""
        for name, part in self.parts.items():
            scale = {'state_in': self.state_scale, 'token_in': self.embedding_scale,
                     'copy_in': self.embedding_scale,
                     'out': self.embedding_scale[:, None]}.get(name, torch.ones(1))
            part.copy_(weights[name] * scale)

    @torch.no_grad()
    def set_row_frequencies(self, counts: torch.Tensor) -> None:
        """Begin with each row as probable as it is frequent. counts: [rows]."""
        self.parts['row_bias'].copy_(((counts + 0.5) / (counts.sum() + 1.0)).log())

    def forward(self, sequences: list[SlotSequence], tables: TargetTables,
                options: LossOptions) -> tuple[torch.Tensor, Acceptance]:
        """Loss per proposal of one batch, and what was accepted in it."""
        weights = self.weights()
        head = tables.rows @ weights['out']
        wanted = [sequence.is_output | _some(sequence, options.prompt_share)
                  for sequence in sequences]
        batch = make_batch(sequences, tables, wanted)
        steps = unroll(weights, self.config, batch, head, tables.row_tokens,
                       options.num_steps)
        soft = SoftTargets.make(sequences)
        num_slots = batch.wanted.shape[1]
        loss = torch.zeros(())
        for number, step in enumerate(steps):
            loss = loss + options.step_weight ** number * proposal_loss(
                step, soft.at(step.slots, num_slots), batch.next_token.flatten()[step.slots],
                batch.copied_token.flatten()[step.slots], tables, options)
        starts = steps[0].slots
        is_output = torch.nn.utils.rnn.pad_sequence([s.is_output for s in sequences], True)
        return loss / len(starts), Acceptance.count(steps, is_output, sequences)


def _some(sequence: SlotSequence, share: float) -> torch.Tensor:
    if share == 0.0:
        return torch.zeros(len(sequence), dtype=torch.bool)
    return torch.rand(len(sequence)) < share


def _initial(name: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    if name.endswith('norm'):
        return torch.ones(shape)
    if len(shape) == 1 or name in (*TABLES, 'attention_out', 'down'):
        return torch.zeros(shape)
    size = 0.1 if name == 'out' else 1.0
    size *= math.sqrt(1.0 / shape[1])
    return torch.randn(shape, generator=generator).mul(size)
