# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a draft learns from, and the count of what would be accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch.nn import functional

from memspec_ros.training.feature_unroll import Step
from memspec_ros.training.slots import SlotSequence, TargetTables


class DraftModel(Protocol):
    """A draft in training, of either kind. ``tables`` are matrices that are looked up in, and
    ``slow`` factors on the rate of some matrices.
    """

    parts: torch.nn.ParameterDict
    tables: ClassVar[tuple[str, ...]]
    slow: ClassVar[Mapping[str, float]]

    @property
    def architecture(self) -> dict[str, Any]:
        """What a draft card says of the network."""

    def weights(self) -> dict[str, torch.Tensor]:
        """Weights as a draft file holds them."""

    def load_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Take over a draft file's weights."""

    def __call__(self, sequences: list[SlotSequence], tables: TargetTables,
                 options: LossOptions) -> tuple[torch.Tensor, Acceptance]:
        """Loss per proposal of one batch, and what was accepted in it."""

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """From checkpoints."""


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
class SoftTargets:
    """The target's probabilities of all slots of a batch, sequence after sequence."""

    rows: torch.Tensor
    chances: torch.Tensor
    offsets: torch.Tensor

    @classmethod
    def make(cls, sequences: list[SlotSequence]) -> SoftTargets:
        """Lay out those of a batch."""
        lengths = torch.tensor([0, *(len(sequence) for sequence in sequences[:-1])])
        return cls(rows=torch.cat([s.soft_rows for s in sequences]).long(),
                   chances=torch.cat([s.soft_chances for s in sequences]).float(),
                   offsets=lengths.cumsum(0))

    def at(self, slots: torch.Tensor, num_slots: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows and probabilities of flat slots of [sequences * num_slots]."""
        places = self.offsets[slots // num_slots] + slots % num_slots
        return self.rows[places], self.chances[places]


def proposal_loss(step: Step, soft: tuple[torch.Tensor, torch.Tensor],
                  next_tokens: torch.Tensor, copied: torch.Tensor, tables: TargetTables,
                  options: LossOptions) -> torch.Tensor:
    """Sum over a step's proposals.

    :param soft: the target's most probable rows and their probabilities, [live, k] each.
    :param copied: the token that the last column of the logits stands for, [live].
    """
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
