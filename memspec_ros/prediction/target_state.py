# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Ranking on the target's own hidden states: no second model, almost no time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from memspec_ros.boundaries import Target, TokenContext
from memspec_ros.prediction.predictor import Prediction
from memspec_ros.prediction.ranking_head import FoldedHead, RankingHead

PROMPT_TOKENS = 256
PARTS = {'prompt': ('prompt', 'last'), 'recent': ('recent', 'last'),
         'both': ('prompt', 'recent', 'last')}

Floats = npt.NDArray[np.float32]


def pooled(states: torch.Tensor, num_output: int, *, recent_tokens: int,
           inputs: str = 'both') -> Floats:
    """Return the features of a context from the target's states.

    The state of a position says what the target expects next. After n output tokens those of
    positions 0 to p + n - 2 are known, since the last token has not been through the target.

    :param states: [positions, hidden] of those positions; the oldest may be missing.
    :param num_output: n.
    :param recent_tokens: T; those of the last T output tokens are pooled.
    :param inputs: 'prompt' (prompt and last state), 'recent' (recent and last), or 'both'.
    :returns: [parts * hidden] float32; NaN where there is nothing to pool.
    """
    num_recent = min(num_output, recent_tokens)
    end_of_prompt = max(0, states.shape[0] - num_output)
    parts = {'prompt': states[max(0, end_of_prompt - PROMPT_TOKENS):end_of_prompt],
             'recent': states[states.shape[0] - num_recent:], 'last': states[-1:]}
    return np.concatenate([_mean(parts[name]) for name in PARTS[inputs]])


def _mean(states: torch.Tensor) -> Floats:
    """Mean over positions, [hidden] float32; NaN of none."""
    return np.asarray(states.mean(dim=0, dtype=torch.float32).cpu().numpy())


class TargetStateRanker:
    """A ranking head over the target's pooled states: of the prompt, of T recent tokens, the last.

    :param head: trained for the target it runs with.
    :param inputs: what the head was trained on (``pooled``).
    """

    def __init__(self, head: RankingHead, *, inputs: str = 'both') -> None:
        self._parts = PARTS[inputs]
        self._head = FoldedHead(head, len(self._parts))
        self._context: TokenContext | None = None
        self._known = self._head.bias
        self._recent = RecentSum()

    def predict(self, context: TokenContext, recent_tokens: int) -> Prediction:
        """Rank the drafts; the prompt's part is computed once a goal."""
        target = context.target
        end = len(context.tokens) - 1
        if end < 1:
            return self._head.predict(self._head.bias)
        if context is not self._context:
            self._context, self._known = context, self._prompt(context)
            self._recent.forget()
        num_recent = min(len(context.tokens) - context.prompt_length, recent_tokens)
        if not num_recent or 'recent' not in self._parts:
            last = _rows(target, end - 1, end)[-1]
            return self._head.predict(self._head.add(self._known, len(self._parts) - 1, last))
        start = max(end - num_recent, target.first_hidden)
        values = np.concatenate(self._recent.move_on(target, start, end))
        return self._head.predict(
            self._head.add(self._known, self._parts.index('recent'), values))

    def _prompt(self, context: TokenContext) -> Floats:
        """What the first layer has of the prompt."""
        end = context.prompt_length - 1
        start = min(max(end - PROMPT_TOKENS, context.target.first_hidden), end)
        if 'prompt' not in self._parts or start == end:
            return self._head.bias
        mean = _sum(_rows(context.target, start, end)) / np.float32(end - start)
        return self._head.add(self._head.bias, self._parts.index('prompt'), mean)


class RecentSum:
    """The sum of the target's states over a window that moves on.

    States of committed tokens stay what they are, so only those that came and those that left
    are read; the whole window is much of what a prediction would have to fetch from memory.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew with the next window."""
        self._start = self._end = -1

    def move_on(self, target: Target, start: int, end: int) -> tuple[Floats, Floats]:
        """Return the mean of positions ``start`` to ``end - 1``, and the last one's state."""
        if not target.first_hidden <= self._start <= start < self._end <= end:
            rows = _rows(target, start, end)
            self._sum = _sum(rows)
        else:
            rows = _rows(target, self._start, end)
            self._sum = self._sum + _sum(rows[self._end - self._start:]) \
                - _sum(rows[:start - self._start])
        self._start, self._end = start, end
        return self._sum / np.float32(end - start), rows[-1]


def _rows(target: Target, start: int, end: int) -> Floats:
    """States in float32, [positions, hidden]; a view where that is what they are."""
    states = target.hidden_states(start, end)
    if not states.is_cpu or states.dtype is not torch.float32:
        states = states.to('cpu', torch.float32)
    return np.asarray(states.numpy())


def _sum(rows: Floats) -> Floats:
    """Sum over positions, [hidden]."""
    return np.asarray(np.add.reduce(rows, 0))
