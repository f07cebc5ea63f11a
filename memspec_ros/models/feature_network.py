# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The network of a feature-conditioned draft, shared by training and serving.

After EAGLE (Li et al. 2024, arXiv 2401.15077): a small network sees, per position, the token's
embedding and the target's last hidden state of the position before, and from its second step on
its own output in the state's place. Ours differs where a very small target and little data ask
for it:

- One attention layer. Its entries depend on their own slot and the one before only, so a slot's
  entry never depends on where the window began, and rewriting it from the target's states is a
  matrix product.
- Keys mix in the slot before (``key_before``), so that one layer can look up "what followed
  this the last time" (an induction head, Olsson et al. 2022), which needs two layers otherwise.
- The token that an exact look-up proposes (the continuation of the longest suffix that occurred
  before, as in prompt look-up) is an input, and its logit gets a learned bonus: the network
  decides when copying is right, and tokens beyond its output rows can be copied, too.
- Embedding and output rows are the target's own, borrowed through small projections.

Slot p (p >= 1) holds token p and the state of p - 1, and predicts token p + 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from torch.nn import functional

from memspec_ros.errors import ModelFormatError, did_you_mean

NORM_EPSILON = 1e-5
MAX_MATCH = 4
"""Longest suffix that the exact look-up tells apart."""


@dataclass(frozen=True, kw_only=True)
class FeatureConfig:
    """Sizes of a feature-conditioned draft.

    ``hidden_size`` is the target's, ``rows`` the number of its output rows that the draft can
    propose, ``window`` how many slots attention sees.

    :raises ModelFormatError: a size is out of range or they do not go together.
    """

    hidden_size: int
    rows: int
    width: int = 256
    num_heads: int = 4
    intermediate: int = 1024
    window: int = 256

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1 << 20:
                raise ModelFormatError(f'{name} of a feature draft is {value!r}; it must be an '
                                       'integer in [1, 1048576]')
        if self.width % self.num_heads:
            raise ModelFormatError(f'width {self.width} of a feature draft does not divide into '
                                   f'{self.num_heads} heads')

    @classmethod
    def from_architecture(cls, architecture: Mapping[str, Any]) -> FeatureConfig:
        """Read the ``architecture`` of a draft card; raises ModelFormatError."""
        known = list(cls.__dataclass_fields__)
        for name in architecture:
            if name not in known:
                raise ModelFormatError(f"a feature draft has no setting '{name}'"
                                       f'{did_you_mean(name, known)}')
        if not {'hidden_size', 'rows'} <= architecture.keys():
            raise ModelFormatError('a feature draft needs hidden_size and rows')
        return cls(**architecture)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the weights, matrices as [out, in]."""
        width, hidden = self.width, self.hidden_size
        square = (width, width)
        return {
            'token_in': (width, hidden), 'state_in': (width, hidden), 'own_in': square,
            'copy_in': (width, hidden), 'match_in': (MAX_MATCH + 1, width),
            'attention_norm': (width,), 'query': square, 'key': square, 'key_before': square,
            'value': square, 'distance': (self.num_heads, self.window),
            'attention_out': square, 'mlp_norm': (width,),
            'gate_up': (2 * self.intermediate, width), 'down': (width, self.intermediate),
            'out_norm': (width,), 'out': (hidden, width), 'row_bias': (self.rows,),
            'copy_gate': (width,), 'copy_bias': (MAX_MATCH + 1,)}


Weights = Mapping[str, torch.Tensor]


def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Root-mean-square norm over the last axis."""
    return functional.rms_norm(x, weight.shape, weight, NORM_EPSILON)


class Project(Protocol):
    """Applies a weight matrix by its name, in whatever form it lies in memory."""

    def __call__(self, name: str, x: torch.Tensor,
                 bias: torch.Tensor | None = None) -> torch.Tensor:
        """Return ``x @ matrix^T + bias``: [..., in] to [..., out]."""


def dense(weights: Weights) -> Project:
    """Matrices as float tensors."""
    def project(name: str, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return functional.linear(x, weights[name], bias)
    return project


def token_part(weights: Weights, project: Project, embedded: torch.Tensor,
               copied: torch.Tensor, match: torch.Tensor) -> torch.Tensor:
    """What a slot's token and its look-up contribute to the slot's input: [..., width].

    :param embedded: the token's embedding, [..., hidden]; ``copied`` that of the look-up's.
    :param match: how long a suffix the look-up matched, 0 (``copied`` is not seen) to MAX_MATCH.
    """
    seen = project('copy_in', copied) * (match > 0)[..., None]
    return project('token_in', embedded) + seen + weights['match_in'][match]


def finish(weights: Weights, project: Project, x: torch.Tensor,
           mixed: torch.Tensor) -> torch.Tensor:
    """From a slot's input and what attention found to the network's output: [..., width]."""
    x = x + project('attention_out', mixed)
    gate, up = project('gate_up', normed(x, weights['mlp_norm'])).chunk(2, -1)
    x = x + project('down', functional.silu(gate) * up)
    return normed(x, weights['out_norm'])


def copy_bonus(weights: Weights, output: torch.Tensor, match: torch.Tensor) -> torch.Tensor:
    """What the logit of the look-up's token gains: [...]."""
    return output @ weights['copy_gate'] + weights['copy_bias'][match]
