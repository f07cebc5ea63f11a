# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a feature-conditioned draft computes per slot: the boundary, and PyTorch behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch

from memspec_ros.models.embedding import Embedding, embedding_rows
from memspec_ros.models.feature_network import (
    FeatureConfig,
    Project,
    copy_bonus,
    dense,
    finish,
    normed,
    token_part,
)

MAX_SLOTS = 64
MAX_STEPS = 16

LookedUp = tuple[int, int]
"""A token that an exact look-up found, and how long a suffix matched; (0, 0) for none."""


class FeatureSlots(Protocol):
    """Runs consecutive slots of one draft, each after the one before.

    Slots fed with the target's states stay; steps from the draft's own output come after them
    and are forgotten together.
    """

    def restart(self) -> None:
        """Forget all slots."""

    def rewind(self) -> None:
        """Forget the steps."""

    def feed(self, tokens: Sequence[int], looked_up: Sequence[LookedUp], states: torch.Tensor,
             num_predicted: int) -> list[int]:
        """Forget the steps, and run at most :data:`MAX_SLOTS` slots.

        :param states: the target's states of the positions before the tokens, [slots, hidden].
        :returns: what is predicted to follow each of the last ``num_predicted`` slots.
        """

    def step(self, token: int, looked_up: LookedUp) -> int:
        """Run a slot from the output of the last one, which must have predicted.

        At most :data:`MAX_STEPS` in a row.

        :returns: the token that is predicted to follow.
        """


class FeatureEntries:
    """Keys and values of the slots that attention may see: a window that slides over memory.

    Slots are consecutive; ``stop`` is one past the last. When the memory is full, the window is
    moved to its beginning.

    :param memory: keys and values, [2, capacity, width].
    """

    def __init__(self, config: FeatureConfig, memory: torch.Tensor) -> None:
        self._config = config
        self._keys, self._values = memory[0], memory[1]
        self.restart(0)

    @staticmethod
    def capacity(config: FeatureConfig) -> int:
        """Entries that the memory holds."""
        return 2 * config.window + MAX_SLOTS + MAX_STEPS

    def restart(self, slot: int) -> None:
        """Hold nothing; the next entry is of ``slot``."""
        self._base = self.stop = slot

    def rollback(self, slot: int) -> None:
        """Forget the entries from ``slot`` on."""
        self.stop = max(self._base, min(self.stop, slot))

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Add entries, [slots, width] each."""
        num = len(keys)
        if self.stop - self._base + num > len(self._keys):
            self._slide(num)
        at = self.stop - self._base
        self._keys[at:at + num] = keys
        self._values[at:at + num] = values
        self.stop += num

    def attend(self, queries: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
        """Attention of the last slots. queries: [slots, width] -> [slots, width]."""
        num, window = len(queries), self._config.window
        first = max(self._base, self.stop - num - window + 1)
        seen = slice(first - self._base, self.stop - self._base)
        if num == 1:
            bias = distance[:, :self.stop - first].flip(1)[:, None]       # [heads, 1, seen]
        else:
            slots = torch.arange(first, self.stop, device=queries.device)
            gaps = slots[-num:, None] - slots
            bias = distance[:, gaps.clamp(0, window - 1)]                 # [heads, slots, seen]
            bias = bias.masked_fill((gaps < 0) | (gaps >= window), -1e9)
        scale = (self._config.width // self._config.num_heads) ** -0.5
        scores = self._heads(queries) * scale @ self._heads(self._keys[seen]).transpose(1, 2)
        mixed = torch.matmul((scores + bias).softmax(-1), self._heads(self._values[seen]))
        return mixed.transpose(0, 1).reshape(num, -1)

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(len(x), self._config.num_heads, -1).transpose(0, 1)

    def _slide(self, num_new: int) -> None:
        kept = min(self.stop - self._base, self._config.window + MAX_STEPS,
                   len(self._keys) - num_new)
        at = self.stop - self._base - kept
        for memory in (self._keys, self._values):
            memory[:kept] = memory[at:at + kept].clone()
        self._base = self.stop - kept


class TorchSlots:
    """:class:`FeatureSlots` in PyTorch, on any device.

    :param weights: as feature_network.py names them, and ``head``: the borrowed rows times
        ``out``, [rows, width].
    :param row_tokens: the target's token of each row, [rows].
    :param embedding: the target's table, [vocab, hidden].
    :param memory: [2, FeatureEntries.capacity(config), width], of the weights' dtype.
    :param project: applies the matrices; None takes them from ``weights``.
    """

    def __init__(self, config: FeatureConfig, weights: Mapping[str, torch.Tensor], *,
                 row_tokens: torch.Tensor, embedding: Embedding, memory: torch.Tensor,
                 project: Project | None = None) -> None:
        self._config = config
        self._weights = weights
        self._project = project or dense(weights)
        self._dtype, self._device = memory.dtype, memory.device
        self._row_tokens = row_tokens
        self._embedding = embedding
        self._entries = FeatureEntries(config, memory)
        self.restart()

    def restart(self) -> None:
        """Forget all slots."""
        self._entries.restart(0)
        self._fed = (self._nothing(), self._nothing())  # entry and output of the last slot
        self._stepped = self._fed
        self._stop = 0

    def rewind(self) -> None:
        """Forget the steps."""
        self._entries.rollback(self._stop)
        self._stepped = self._fed

    @torch.inference_mode()
    def feed(self, tokens: Sequence[int], looked_up: Sequence[LookedUp], states: torch.Tensor,
             num_predicted: int) -> list[int]:
        """Run slots; see :meth:`FeatureSlots.feed`."""
        self.rewind()
        own = self._project('state_in', states.to(self._device, self._dtype))
        predicted = self._run(tokens, looked_up, own, num_predicted)
        self._fed, self._stop = self._stepped, self._entries.stop
        return predicted

    @torch.inference_mode()
    def step(self, token: int, looked_up: LookedUp) -> int:
        """Run a slot from the last output; see :meth:`FeatureSlots.step`."""
        own = self._project('own_in', self._stepped[1])
        return self._run([token], [looked_up], own, 1)[0]

    def _run(self, tokens: Sequence[int], looked_up: Sequence[LookedUp], own: torch.Tensor,
             num_predicted: int) -> list[int]:
        weights, project = self._weights, self._project
        copied, match = self._ints(looked_up).unbind(1)
        x = own + token_part(weights, project, self._embed(self._ints(tokens)),
                             self._embed(copied), match)
        entry = normed(x, weights['attention_norm'])
        previous = torch.cat((self._stepped[0], entry[:-1]))
        self._entries.append(
            project('key', entry) + project('key_before', previous), project('value', entry))
        if not num_predicted:
            self._stepped = entry[-1:], self._nothing()
            return []
        seen = slice(len(tokens) - num_predicted, None)
        mixed = self._entries.attend(project('query', entry[seen]), weights['distance'])
        output = finish(weights, project, x[seen], mixed)
        self._stepped = entry[-1:], output[-1:]
        return self._choose(output, looked_up[seen])

    def _embed(self, tokens: torch.Tensor) -> torch.Tensor:
        return embedding_rows(self._embedding, tokens).to(self._dtype)

    def _ints(self, values: Sequence[object]) -> torch.Tensor:
        return torch.tensor(values, device=self._device)

    def _nothing(self) -> torch.Tensor:
        return torch.zeros(1, self._config.width, dtype=self._dtype, device=self._device)

    def _choose(self, output: torch.Tensor,
                looked_up: Sequence[LookedUp]) -> list[int]:
        """The most probable token after each slot."""
        logits = self._project('head', output, self._weights['row_bias'])
        copied, match = self._ints(looked_up).T.contiguous()
        bonus = copy_bonus(self._weights, output, match) * (match > 0)
        place = torch.searchsorted(self._row_tokens, copied.to(self._row_tokens.dtype))
        place = place.clamp(max=len(self._row_tokens) - 1)
        has_row = self._row_tokens[place] == copied
        logits.scatter_add_(1, place[:, None], (bonus * has_row)[:, None])
        best, rows = logits.max(-1)
        beyond = (match > 0) & ~has_row & (bonus > best)
        tokens = torch.where(beyond, copied, self._row_tokens[rows].long())
        return [int(token) for token in tokens]
