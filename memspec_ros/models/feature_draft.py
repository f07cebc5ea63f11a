# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The feature-conditioned draft (EAGLE's kind) as it runs beside its target, batch 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from memspec_ros.boundaries import TokenContext
from memspec_ros.models.feature_network import (
    FeatureConfig,
    Project,
    copy_bonus,
    dense,
    finish,
    normed,
    token_part,
)
from memspec_ros.models.suffix_lookup import SuffixLookup

MAX_JUDGED_TOKENS = 64
MAX_STEPS = 16


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
        return 2 * config.window + MAX_JUDGED_TOKENS + MAX_STEPS

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


class FeatureDraft:
    """A feature-conditioned draft as a :class:`~memspec_ros.boundaries.Draft`.

    What it proposes depends on the tokens and the target's states of the last ``window``
    positions only: each slot's entry is made from the target's states as soon as there are
    some, in place of the draft's own guess.

    :param weights: as feature_network.py names them, and ``head``: the borrowed rows times
        ``out``, [rows, width].
    :param row_tokens: the target's token of each row, [rows].
    :param embedding: the target's table, [vocab, hidden].
    :param memory: [2, FeatureEntries.capacity(config), width], of the weights' dtype.
    :param project: applies the matrices; None takes them from ``weights``.
    """

    def __init__(self, name: str, config: FeatureConfig, weights: Mapping[str, torch.Tensor], *,
                 row_tokens: torch.Tensor, embedding: torch.Tensor, memory: torch.Tensor,
                 project: Project | None = None) -> None:
        self.name = name
        self._config = config
        self._weights = weights
        self._project = project or dense(weights)
        self._dtype, self._device = memory.dtype, memory.device
        self._row_tokens = row_tokens
        self._embedding = embedding
        self._entries = FeatureEntries(config, memory)
        self.reset()

    def reset(self) -> None:
        """Forget all tokens."""
        self._tokens: list[int] = []
        self._lookup = SuffixLookup()
        self._looked_up: list[tuple[int, int]] = []
        self._entries.restart(1)
        self._before = self._nothing()
        self._output: torch.Tensor | None = None
        self._prediction = -1
        self._flags: list[bool] = []

    @torch.inference_mode()
    def catch_up(self, context: TokenContext) -> Sequence[bool]:
        """Feed what is missing; flags of committed positions, as the boundary says."""
        self._feed(context)
        flags, self._flags = self._flags, []
        return flags

    @torch.inference_mode()
    def propose(self, context: TokenContext, num_tokens: int) -> Sequence[int]:
        """Propose up to ``num_tokens``; fewer when an end token of the target would follow."""
        self._feed(context)
        if self._output is None:
            return []
        proposed: list[int] = []
        token, output, before = self._prediction, self._output, self._before
        length = len(self._tokens)
        while token not in context.target.end_ids:
            proposed.append(token)
            if len(proposed) == num_tokens:
                break
            self._lookup.append(token)
            looked_up = [self._lookup.look_up()]
            own = self._project('own_in', output)
            output, before = self._slots([token], looked_up, own, before)
            token = self._choose(output, looked_up)[0]
        self._lookup.rollback(length)
        self._entries.rollback(length)
        return proposed

    def _feed(self, context: TokenContext) -> None:
        """Bring the entries up to the context, and predict what follows its last tokens."""
        tokens = list(context.tokens)
        shared = self._rewind(tokens)
        if shared == len(tokens):
            return
        for token in tokens[shared:]:
            self._lookup.append(token)
            self._looked_up.append(self._lookup.look_up())
        self._tokens = tokens
        # A slot's key needs the slot before; one more is fed where there is a gap.
        first = max(self._entries.stop, len(tokens) - self._config.window - MAX_JUDGED_TOKENS,
                    context.target.first_hidden + 1, 1)
        if first > self._entries.stop:
            self._entries.restart(first)
            self._before = self._nothing()
        self._feed_slots(context, first, shared)

    def _feed_slots(self, context: TokenContext, first: int, shared: int) -> None:
        tokens, stop = self._tokens, len(self._tokens)
        while first < stop:
            last = min(stop, first + MAX_JUDGED_TOKENS)
            states = context.target.hidden_states(first - 1, last - 1)
            own = self._project('state_in', states.to(self._device, self._dtype))
            looked_up = self._looked_up[first:last]
            output, self._before = self._slots(tokens[first:last], looked_up, own, self._before)
            if last == stop:
                predicted = self._choose(output, looked_up)
                # Slot p predicts token p + 1; the one before the new tokens did so last time.
                if self._output is not None and context.prompt_length <= shared:
                    self._flags.append(self._prediction == tokens[shared])
                judged = range(max(first, shared, context.prompt_length - 1), stop - 1)
                self._flags += [predicted[p - first] == tokens[p + 1] for p in judged]
                self._output, self._prediction = output[-1:], predicted[-1]
            first = last

    def _rewind(self, tokens: list[int]) -> int:
        """Forget all unless it is a prefix of ``tokens``; returns how many are shared.

        Entries of a part cannot be continued, since the slot before is kept for the last only.
        """
        if tokens[:len(self._tokens)] != self._tokens:
            self.reset()
        return len(self._tokens)

    def _slots(self, tokens: Sequence[int], looked_up: Sequence[tuple[int, int]],
               own: torch.Tensor, before: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Run consecutive slots; returns outputs [slots, width] and the last normed input."""
        weights, project = self._weights, self._project
        copied, match = self._ints(looked_up).unbind(1)
        x = own + token_part(weights, project, self._embed(self._ints(tokens)),
                             self._embed(copied), match)
        entry = normed(x, weights['attention_norm'])
        previous = torch.cat((before, entry[:-1]))
        self._entries.append(
            project('key', entry) + project('key_before', previous), project('value', entry))
        mixed = self._entries.attend(project('query', entry), weights['distance'])
        return finish(weights, project, x, mixed), entry[-1:]

    def _embed(self, tokens: torch.Tensor) -> torch.Tensor:
        return self._embedding[tokens].to(self._dtype)

    def _ints(self, values: Sequence[object]) -> torch.Tensor:
        return torch.tensor(values, device=self._device)

    def _nothing(self) -> torch.Tensor:
        return torch.zeros(1, self._config.width, dtype=self._dtype, device=self._device)

    def _choose(self, output: torch.Tensor,
                looked_up: Sequence[tuple[int, int]]) -> list[int]:
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
