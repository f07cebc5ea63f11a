# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Ranking on the target's own hidden states: no second model, almost no time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from memspec_ros.boundaries import TokenContext
from memspec_ros.prediction.predictor import Prediction
from memspec_ros.prediction.ranking_head import RankingHead

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
        self._head = head
        self._inputs = inputs
        self._context: TokenContext | None = None
        self._prompt: Floats | None = None

    def predict(self, context: TokenContext, recent_tokens: int) -> Prediction:
        """Rank the drafts; the prompt's part is computed once a goal."""
        return self._head.predict(self.features(context, recent_tokens))

    def features(self, context: TokenContext, recent_tokens: int) -> Floats:
        """Return the features of a context: [F]."""
        target = context.target
        end = len(context.tokens) - 1
        num_recent = min(len(context.tokens) - context.prompt_length, recent_tokens)
        if end < 1:
            return np.full(self._head.num_features, np.nan, dtype=np.float32)
        parts: dict[str, Floats] = {'last': _mean(target.hidden_states(end - 1, end))}
        if 'recent' in PARTS[self._inputs]:
            start = max(end - num_recent, target.first_hidden)
            parts['recent'] = _mean(target.hidden_states(start, end)) if num_recent else \
                np.full_like(parts['last'], np.nan)
        if 'prompt' in PARTS[self._inputs]:
            parts['prompt'] = self._prompt_part(context)
        return np.concatenate([parts[name] for name in PARTS[self._inputs]])

    def _prompt_part(self, context: TokenContext) -> Floats:
        if context is not self._context or self._prompt is None:
            self._context = context
            end = context.prompt_length - 1
            start = max(end - PROMPT_TOKENS, context.target.first_hidden)
            self._prompt = _mean(context.target.hidden_states(min(start, end), end))
        return self._prompt
