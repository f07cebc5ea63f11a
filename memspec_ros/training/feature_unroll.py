# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""All positions of a batch at once, unrolled as a draft runs when it proposes.

Step 1 sees the target's states, step j the draft's own output of step j - 1; attention sees the
slots before from the target's states and the proposed ones from their own steps, exactly as in
serving. Step j + 1 is computed only where step j proposed the true token: elsewhere its
proposal would never be looked at, neither in training nor in serving.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from memspec_ros.models.feature_network import (
    FeatureConfig,
    Weights,
    copy_bonus,
    dense,
    finish,
    normed,
    token_part,
)


@dataclass(frozen=True, kw_only=True)
class SlotBatch:
    """Slots of several sequences, padded on the right; [sequences, slots] each.

    ``wanted`` marks where proposals start. ``next_token`` is what really follows, by token id.
    ``match`` is 0 at padding.
    """

    embedded: torch.Tensor          # [..., hidden]: the slot's token
    copied: torch.Tensor            # [..., hidden]: the look-up's token
    copied_token: torch.Tensor      # its id
    copied_row: torch.Tensor        # its output row, -1 if it has none
    match: torch.Tensor             # length of the suffix looked up
    state: torch.Tensor             # [..., hidden]: the target's, of the position before
    next_token: torch.Tensor
    wanted: torch.Tensor            # bool


@dataclass(frozen=True, kw_only=True)
class Step:
    """Step j of all live proposals: ``slots`` are flat indices of [sequences * slots].

    ``logits`` is [live, rows + 1]; the last column is the look-up's token where it has no row.
    ``proposed`` are token ids, ``right`` says where they are what follows.
    """

    slots: torch.Tensor
    logits: torch.Tensor
    proposed: torch.Tensor
    right: torch.Tensor


def unroll(weights: Weights, config: FeatureConfig, batch: SlotBatch, head: torch.Tensor,
           row_tokens: torch.Tensor, num_steps: int) -> list[Step]:
    """Run up to ``num_steps`` steps; fewer when no proposal is alive any more.

    :param head: the borrowed rows times ``out``: [rows, width].
    :param row_tokens: token id of each row.
    """
    project = dense(weights)
    token = token_part(weights, project, batch.embedded, batch.copied, batch.match)
    history = _History(config, weights['distance'], batch.wanted.shape)
    own = project('state_in', batch.state)
    live, steps, before = batch.wanted, [], None
    for _ in range(num_steps):
        x = token + own
        entry = normed(x, weights['attention_norm'])
        before = _shift(entry if before is None else before)
        mixed = history.attend(
            project('query', entry), project('key', entry) + project('key_before', before),
            project('value', entry))
        before = entry
        slots = live.flatten().nonzero()[:, 0]
        output = finish(weights, project, x.flatten(0, 1)[slots], mixed.flatten(0, 1)[slots])
        steps.append(_propose(weights, batch, head, row_tokens, slots, output))
        live = _shift(_scatter(steps[-1].right, slots, live))
        live[:, 0] = False
        live &= batch.wanted
        if not live.any():
            break
        own = project('own_in', _shift(_scatter(output, slots, x)))
    return steps


def _propose(weights: Weights, batch: SlotBatch, head: torch.Tensor, row_tokens: torch.Tensor,
             slots: torch.Tensor, output: torch.Tensor) -> Step:
    match = batch.match.flatten()[slots]
    row = batch.copied_row.flatten()[slots]
    bonus = copy_bonus(weights, output, match)
    logits = functional.linear(output, head, weights['row_bias'])
    known = (match > 0) & (row >= 0)
    logits = logits.scatter_add(1, row.clamp(min=0)[:, None], (bonus * known)[:, None])
    beyond = torch.where((match > 0) & (row < 0), bonus, torch.full_like(bonus, -1e9))
    logits = torch.cat((logits, beyond[:, None]), 1)
    best = logits.detach().argmax(1)
    proposed = torch.where(best < len(row_tokens), row_tokens[best.clamp(max=len(row_tokens) - 1)],
                           batch.copied_token.flatten()[slots])
    return Step(slots=slots, logits=logits, proposed=proposed,
                right=proposed == batch.next_token.flatten()[slots])


class _History:
    """Attention over the slots before: step 1's entries, and the proposed ones of later steps."""

    def __init__(self, config: FeatureConfig, distance: torch.Tensor,
                 shape: torch.Size) -> None:
        self._config = config
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        num = shape[1]
        self._bias_table = distance
        slots = torch.arange(num, device=distance.device)
        self._gap = slots[:, None] - slots                                # [slots, slots]

    def attend(self, query: torch.Tensor, key: torch.Tensor,
               value: torch.Tensor) -> torch.Tensor:
        """Add this step's entries and attend. All are [sequences, slots, width]."""
        self._keys.append(self._heads(key))
        self._values.append(self._heads(value))
        step = len(self._keys) - 1
        query = self._heads(query) * (query.shape[-1] // self._config.num_heads) ** -0.5
        # The slots before the first proposed one have step 1's entries.
        hidden = (self._gap < step) | (self._gap >= self._config.window)
        bias = self._bias_table[:, self._gap.clamp(0, self._config.window - 1)]
        scores = (query @ self._keys[0].transpose(-1, -2) + bias).masked_fill(hidden, -1e9)
        later = [self._proposed(query, step, number) for number in range(1, step + 1)]
        chances = torch.cat((scores, *later), -1).softmax(-1)
        num = scores.shape[-1]
        mixed = chances[..., :num] @ self._values[0]
        for number in range(1, step + 1):
            mixed = mixed + chances[..., num + number - 1, None] * _back(
                self._values[number], step - number)
        return mixed.transpose(1, 2).flatten(2)

    def _proposed(self, query: torch.Tensor, step: int, number: int) -> torch.Tensor:
        key = _back(self._keys[number], step - number)
        bias = self._bias_table[:, step - number][:, None, None]
        return (query * key).sum(-1, keepdim=True) + bias

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:-1], self._config.num_heads, -1).transpose(1, 2)


def _shift(x: torch.Tensor) -> torch.Tensor:
    """What the slot before holds (zeros at the first): axis 1."""
    return torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), 1)


def _back(x: torch.Tensor, distance: int) -> torch.Tensor:
    """What ``distance`` slots before hold: axis 2 of [sequences, heads, slots, head]."""
    if distance == 0:
        return x
    return torch.cat((torch.zeros_like(x[:, :, :distance]), x[:, :, :-distance]), 2)


def _scatter(values: torch.Tensor, slots: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Lay values of flat slots out as [sequences, slots, ...], zeros elsewhere."""
    flat = values.new_zeros(like.shape[0] * like.shape[1], *values.shape[1:])
    return flat.index_copy(0, slots, values).view(*like.shape[:2], *values.shape[1:])
