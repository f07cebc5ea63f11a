# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a predictor answers, and the prior of one that knows nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memspec_ros.boundaries import TokenContext


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Scores of all drafts in one context.

    :param scores: P(d | x_i): how probably each draft is the best for what comes; sums to 1.
    """

    scores: Mapping[str, float]


class Predictor(Protocol):
    """Ranks the drafts of a pool (section 3.2)."""

    def predict(self, context: TokenContext, recent_tokens: int) -> Prediction:
        """Score the drafts for x_i: the prompt alone, or the prompt and T recent tokens.

        :param recent_tokens: T.
        """


class UniformPredictor:
    """Holds every draft equally probable; the pool's order then decides.

    :param drafts: names of the pool's drafts.
    """

    def __init__(self, drafts: Sequence[str]) -> None:
        share = 1.0 / len(drafts) if drafts else 0.0
        self._prediction = Prediction(scores=dict.fromkeys(drafts, share))

    def predict(self, context: TokenContext,  # noqa: ARG002 - it knows nothing
                recent_tokens: int) -> Prediction:  # noqa: ARG002
        """Return the same for every context."""
        return self._prediction
