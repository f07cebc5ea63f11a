# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The token that the target puts at a position, greedy or sampled.

Sampling here is a function: the token at position t follows from the target's distribution there
and a uniform number u(seed, t), by inverting the cumulative distribution. Verification is then one
comparison for greedy and sampled decoding alike: a proposal is accepted when it is the token that
the target itself puts there. A proposal x is so accepted with probability p(x), and when it is
refused the token follows p without x, which is what speculative sampling prescribes for a one-hot
draft (Leviathan et al. 2023, algorithm 1, with q = 1 at x). What it gives beyond that: with one
seed the output is the same whatever the draft, so runs can be compared and replayed exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from memspec_ros.records import SamplingOptions

_MASK = 2**64 - 1


def uniform(seed: int, position: int) -> float:
    """Return u(seed, position) in [0, 1): the SplitMix64 output function over a counter."""
    state = (seed + (position + 1) * 0x9E3779B97F4A7C15) & _MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((state ^ (state >> 31)) >> 11) * 2.0**-53


class TokenChoice:
    """Chooses the target's token at each position of a pass.

    :param sampling: temperature 0 is greedy.
    :param seed: of u(seed, position); unused when greedy.
    """

    def __init__(self, sampling: SamplingOptions, seed: int) -> None:
        self._sampling = sampling
        self._seed = seed
        self._row_by_row = not sampling.is_greedy or sampling.repetition_penalty != 1.0

    def choose(self, logits: torch.Tensor, tokens: Sequence[int],
               proposals: Sequence[int]) -> list[int]:
        """Return the target's tokens after ``tokens``, up to and including the first that is not
        the proposal: the accepted proposals, then one more (Algorithm 1 of Leviathan et al.).

        :param logits: [len(proposals) + 1, vocab]; row j is the distribution after ``tokens``
            and the first j proposals.
        """
        if not self._row_by_row:
            chosen = torch.argmax(logits, dim=-1).tolist()
            return chosen[:count_agreeing(chosen, proposals) + 1]
        chosen = []
        prefix = list(tokens) if self._sampling.repetition_penalty != 1.0 else []
        for row, proposal in zip(logits, [*proposals, None], strict=True):
            chosen.append(self._choose_one(row, prefix, len(tokens) + len(chosen)))
            if chosen[-1] != proposal:
                break
            prefix.append(chosen[-1])
        return chosen

    def _choose_one(self, logits: torch.Tensor, prefix: Sequence[int], position: int) -> int:
        """Choose from one row [vocab]; penalties see the hypothetical prefix of this row."""
        logits = logits.float()
        if self._sampling.repetition_penalty != 1.0:
            logits = _penalise(logits, prefix, self._sampling.repetition_penalty)
        if self._sampling.is_greedy:
            return int(torch.argmax(logits))
        values, token_ids = _filtered(logits / self._sampling.temperature, self._sampling)
        cumulative = torch.cumsum(torch.softmax(values.double(), dim=-1), dim=-1)
        # The total may fall short of 1 by rounding: scale u so that it cannot pass it.
        threshold = uniform(self._seed, position) * float(cumulative[-1])
        index = int(torch.searchsorted(cumulative, threshold, right=True))
        return int(token_ids[min(index, len(token_ids) - 1)])


def count_agreeing(chosen: Sequence[int], proposals: Sequence[int]) -> int:
    """Return how many leading proposals are the target's own tokens."""
    for count, proposal in enumerate(proposals):
        if chosen[count] != proposal:
            return count
    return len(proposals)


def _penalise(logits: torch.Tensor, prefix: Sequence[int], penalty: float) -> torch.Tensor:
    """Divide positive and multiply negative logits of seen tokens (Keskar et al. 2019)."""
    seen = torch.tensor(sorted(set(prefix)), dtype=torch.long, device=logits.device)
    values = logits[seen]
    return logits.index_put((seen,), torch.where(values > 0, values / penalty, values * penalty))


def _filtered(logits: torch.Tensor,
              sampling: SamplingOptions) -> tuple[torch.Tensor, torch.Tensor]:
    """Keep what top-k, top-p and min-p leave (in that order, each on what the last one left).

    :param logits: [vocab], temperature applied.
    :returns: logits and token ids, [kept]; the most probable token is always among them.
    """
    if not sampling.top_k and sampling.top_p >= 1.0 and sampling.min_p <= 0.0:
        return logits, torch.arange(len(logits), device=logits.device)
    num_candidates = min(sampling.top_k or len(logits), len(logits))
    # A stable sort keeps equal logits in the order of their ids, on every device.
    values, token_ids = torch.sort(logits, descending=True, stable=True)
    values, token_ids = values[:num_candidates], token_ids[:num_candidates]
    if sampling.top_p < 1.0:
        probabilities = torch.softmax(values.double(), dim=-1)
        before = torch.cumsum(probabilities, dim=-1) - probabilities
        kept = max(1, int((before < sampling.top_p).sum()))
        values, token_ids = values[:kept], token_ids[:kept]
    if sampling.min_p > 0.0:
        probabilities = torch.softmax(values.double(), dim=-1)
        kept = max(1, int((probabilities >= sampling.min_p * probabilities[0]).sum()))
        values, token_ids = values[:kept], token_ids[:kept]
    return values, token_ids
