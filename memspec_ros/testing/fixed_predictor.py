# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A predictor that says what it was told to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memspec_ros.boundaries import TokenContext
from memspec_ros.prediction.predictor import Prediction


class FixedPredictor:
    """A :class:`~memspec_ros.prediction.predictor.Predictor` for tests and experiments.

    :param scores: scores by draft, or what gives them for a number of output tokens.
    """

    def __init__(self, scores: Mapping[str, float] | Callable[[int], Mapping[str, float]]) -> None:
        self._scores = scores
        self.num_predictions = 0

    def predict(self, context: TokenContext,
                recent_tokens: int) -> Prediction:  # noqa: ARG002 - it was told
        """Return the scores, for the context's number of output tokens."""
        self.num_predictions += 1
        scores = self._scores(len(context.tokens) - context.prompt_length) \
            if callable(self._scores) else self._scores
        return Prediction(scores=scores)
