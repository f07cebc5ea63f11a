# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The trainable form of a feature-conditioned draft, and its loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn import functional

from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.training.feature_unroll import Step, unroll
from memspec_ros.training.slots import SlotSequence, TargetTables, make_batch

BORROWING = ('state_in', 'token_in', 'copy_in')
TABLES = ('match_in', 'distance')


class FeatureModel(torch.nn.Module):
    """A feature-conditioned draft in training.

    Matrices that meet the target's states and embeddings are kept for inputs of unit scale (a
    few channels of the target are a hundred times the others), and scaled when used.

    :param scales: per channel, of the target's ``state`` and ``embedding``: [hidden] each.
    """

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
        soft = _Soft.make(sequences)
        num_slots = batch.wanted.shape[1]
        loss = torch.zeros(())
        for number, step in enumerate(steps):
            loss = loss + options.step_weight ** number * _step_loss(
                step, soft.at(step.slots, num_slots), batch.next_token.flatten()[step.slots],
                batch.copied_token.flatten()[step.slots], tables, options)
        starts = steps[0].slots
        is_output = torch.nn.utils.rnn.pad_sequence([s.is_output for s in sequences], True)
        return loss / len(starts), Acceptance.count(steps, is_output, sequences)


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """What is learned from.

    ``soft_weight`` is the share of the target's probabilities in the loss, the rest is cross
    entropy on its token. Step j counts ``step_weight`` to the power j - 1. ``prompt_share`` of
    the prompts' slots are learned from, too.
    """

    num_steps: int = 3
    soft_weight: float = 0.5
    step_weight: float = 1.0
    prompt_share: float = 0.0


@dataclass(kw_only=True)
class Acceptance:
    """Counts of proposals on answers: ``right[j]`` of ``starts`` survived step j + 1."""

    starts: dict[str, int]
    right: dict[str, list[int]]

    @classmethod
    def count(cls, steps: list[Step], is_output: torch.Tensor,
              sequences: list[SlotSequence]) -> Acceptance:
        """Count a batch, per domain; a chain is counted at its last slot's sequence."""
        counts = cls(starts={}, right={})
        num_slots = is_output.shape[1]
        domains = [sequence.domain for sequence in sequences]
        for number, step in enumerate(steps):
            kept = is_output.flatten()[step.slots]
            owners = (step.slots // num_slots)[kept].tolist()
            for owner, right in zip(owners, step.right[kept].tolist(), strict=True):
                domain = domains[owner]
                row = counts.right.setdefault(domain, [0] * 16)
                row[number] += right
                if number == 0:
                    counts.starts[domain] = counts.starts.get(domain, 0) + 1
        return counts

    def add(self, other: Acceptance) -> None:
        """Add another batch's counts."""
        for domain, starts in other.starts.items():
            self.starts[domain] = self.starts.get(domain, 0) + starts
            row = self.right.setdefault(domain, [0] * 16)
            self.right[domain] = [a + b for a, b in zip(row, other.right[domain], strict=True)]

    def committed(self, draft_length: int = 3) -> dict[str, float]:
        """Expected tokens per iteration if every position started one, per domain."""
        return {domain: 1.0 + sum(self.right[domain][:draft_length]) / starts
                for domain, starts in sorted(self.starts.items())}


@dataclass(frozen=True, kw_only=True)
class _Soft:
    """The target's probabilities of all slots of a batch, sequence after sequence."""

    rows: torch.Tensor
    chances: torch.Tensor
    offsets: torch.Tensor

    @classmethod
    def make(cls, sequences: list[SlotSequence]) -> _Soft:
        lengths = torch.tensor([0, *(len(sequence) for sequence in sequences[:-1])])
        return cls(rows=torch.cat([s.soft_rows for s in sequences]).long(),
                   chances=torch.cat([s.soft_chances for s in sequences]).float(),
                   offsets=lengths.cumsum(0))

    def at(self, slots: torch.Tensor, num_slots: int) -> tuple[torch.Tensor, torch.Tensor]:
        places = self.offsets[slots // num_slots] + slots % num_slots
        return self.rows[places], self.chances[places]


def _step_loss(step: Step, soft: tuple[torch.Tensor, torch.Tensor], next_tokens: torch.Tensor,
               copied: torch.Tensor, tables: TargetTables,
               options: LossOptions) -> torch.Tensor:
    """Sum over a step's proposals."""
    chances = functional.log_softmax(step.logits, -1)
    rows = tables.token_rows[next_tokens]
    beyond = (rows < 0) & (copied == next_tokens) & (step.logits[:, -1] > -1e8)
    labels = torch.where(beyond, step.logits.shape[1] - 1, rows)
    hard = functional.nll_loss(chances, labels, ignore_index=-1, reduction='sum')
    if options.soft_weight == 0.0:
        return hard
    of_rows, wanted = soft
    # A token that has no row leaves nothing to learn about the rows.
    wanted = wanted * (rows >= 0)[:, None]
    softly = -(chances.gather(1, of_rows) * wanted).sum()
    return hard.lerp(softly, options.soft_weight)


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
