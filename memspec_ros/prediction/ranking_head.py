# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The trained part of a predictor: features of a context in, scores per draft out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from memspec_ros.errors import DataError
from memspec_ros.prediction.predictor import Prediction

Floats = npt.NDArray[np.float32]

TENSORS = ('mean', 'scale', 'weight_1', 'bias_1', 'weight_2', 'bias_2')


@dataclass(frozen=True, kw_only=True)
class RankingHead:
    """Two layers over standardised features: log-scores, and first-proposal acceptance rates.

    F features, H hidden units, D drafts. What of the features is unknown (no recent tokens yet)
    is NaN and stands for its mean.

    :param drafts: names, in the order of the outputs.
    :param mean: [F]; ``scale`` [F]: to standardise with.
    :param weight_1: [F, H], ``bias_1`` [H], ``weight_2`` [H, 2 D], ``bias_2`` [2 D].
    :raises DataError: the shapes do not go together.
    """

    drafts: tuple[str, ...]
    mean: Floats
    scale: Floats
    weight_1: Floats
    bias_1: Floats
    weight_2: Floats
    bias_2: Floats

    def __post_init__(self) -> None:
        num_features, num_hidden = self.weight_1.shape
        wanted = {'mean': (num_features,), 'scale': (num_features,), 'bias_1': (num_hidden,),
                  'weight_2': (num_hidden, 2 * len(self.drafts)),
                  'bias_2': (2 * len(self.drafts),)}
        for name, shape in wanted.items():
            if getattr(self, name).shape != shape:
                raise DataError(f'ranking head: {name} has shape {getattr(self, name).shape}; '
                                f'{shape} goes with {len(self.drafts)} drafts')

    @property
    def num_features(self) -> int:
        """F."""
        return int(self.weight_1.shape[0])

    def outputs(self, features: Floats) -> tuple[Floats, Floats]:
        """Return scores and rates, [..., D] each, for features [..., F]."""
        standard = np.nan_to_num((features - self.mean) * self.scale)
        hidden = np.maximum(standard @ self.weight_1 + self.bias_1, 0.0)
        raw = hidden @ self.weight_2 + self.bias_2
        logits, rate_logits = raw[..., :len(self.drafts)], raw[..., len(self.drafts):]
        return _softmax(logits), 1.0 / (1.0 + np.exp(-rate_logits))

    def predict(self, features: Floats) -> Prediction:
        """Return the prediction for the features [F] of one context."""
        scores, _ = self.outputs(features)
        return Prediction(scores=dict(zip(self.drafts, scores.tolist(), strict=True)))

    def tensors(self) -> Mapping[str, Floats]:
        """Return the arrays by name, as the predictor file keeps them."""
        return {name: getattr(self, name) for name in TENSORS}


class FoldedHead:
    """A ranking head for one context at a time, its features in parts of equal width.

    A scheduling point finds the processor's caches full of the target's weights, so what counts
    is how few operations there are, and how little code they touch: NumPy's take a third of the
    time that PyTorch's do. Scales are folded into the first layer, and a part that stays the
    same is multiplied once.
    """

    def __init__(self, head: RankingHead, num_parts: int) -> None:
        self._drafts = head.drafts
        self._part_width = head.num_features // num_parts
        self._mean = head.mean
        self._weight = np.ascontiguousarray((head.scale[:, None] * head.weight_1).T)  # [H, F]
        self.bias = head.bias_1
        # Of the scores only: rates are for training's report.
        self._weight_2 = np.ascontiguousarray(head.weight_2.T[:len(head.drafts)])     # [D, H]
        self._bias_2 = head.bias_2[:len(head.drafts)]

    def add(self, known: Floats, first_part: int, values: Floats) -> Floats:
        """Return the first layer's sums with more parts; :attr:`bias` is what they begin as.

        A part that is unknown is not added: its mean stands for it.

        :param known: [H].
        :param values: of one part, or of several that follow each other, float32.
        """
        first = first_part * self._part_width
        stop = first + len(values)
        sums: Floats = known + self._weight[:, first:stop] @ (values - self._mean[first:stop])
        return sums

    def predict(self, known: Floats) -> Prediction:
        """Return the prediction for a context whose known parts have been added."""
        logits = (self._weight_2 @ np.maximum(known, 0.0) + self._bias_2).tolist()
        most = max(logits)
        powers = [math.exp(logit - most) for logit in logits]
        total = sum(powers)
        return Prediction(scores={draft: power / total for draft, power in
                                  zip(self._drafts, powers, strict=True)})


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), dtype=np.float32)
