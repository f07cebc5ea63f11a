# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Contexts to train and measure predictors on, from traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from memspec_ros.errors import DataError
from memspec_ros.prediction.encoder import MiniLmEncoder
from memspec_ros.prediction.fit import Samples
from memspec_ros.prediction.target_state import pooled
from memspec_ros.replay.acceptance_table import AcceptanceTable, TracedGoal

Floats = npt.NDArray[np.float32]
TextOf = Callable[[Sequence[int]], str]
FeaturesOf = Callable[[TracedGoal, Sequence[int]], Floats]
"""(goal, numbers of output tokens) -> [contexts, features]."""


@dataclass(frozen=True, kw_only=True)
class SampleOptions:
    """Which contexts are taken, and what is predicted of each.

    :param stride_tokens: output tokens between contexts of a goal; the empty output is one too.
    :param horizon_iterations: N: the utility is over so many iterations.
    :param draft_length: gamma.
    :param rate_tokens: first proposals that a rate is over.
    """

    stride_tokens: int = 4
    horizon_iterations: int = 4
    draft_length: int = 3
    rate_tokens: int = 16


def samples_of(table: AcceptanceTable, drafts: Sequence[str], features_of: FeaturesOf,
               options: SampleOptions, *, first_group: int = 0) -> Samples:
    """Return the contexts of a trace.

    :param first_group: number of the first goal, so that goals of several traces differ.
    :raises DataError: a draft is not in the trace, or it was unrolled too little.
    """
    if options.draft_length > table.steps:
        raise DataError(f'the trace was unrolled for {table.steps} steps; a draft length of '
                        f'{options.draft_length} cannot be judged from it')
    if missing := [name for name in drafts if name not in table.drafts]:
        raise DataError(f'the trace has no draft {", ".join(missing)}; it has '
                        f'{", ".join(table.drafts)}')
    features, utilities, rates, groups = [], [], [], []
    for number, goal in enumerate(table.goals):
        positions = context_positions(len(goal.output_ids), options)
        if not positions:
            continue
        features.append(features_of(goal, positions))
        utilities.append([[utility(goal.runs[name], position, options) for name in drafts]
                          for position in positions])
        rates.append([[_rate(goal.runs[name], position, options) for name in drafts]
                      for position in positions])
        groups.extend([first_group + number] * len(positions))
    if not groups:
        raise DataError('the trace has no output long enough to learn from')
    return Samples(drafts=tuple(drafts), features=np.concatenate(features),
                   utilities=np.concatenate([np.array(rows, np.float64) for rows in utilities]),
                   rates=np.concatenate([np.array(rows, np.float32) for rows in rates]),
                   groups=np.array(groups, np.int64))


def context_positions(num_output: int, options: SampleOptions) -> list[int]:
    """Return the numbers of output tokens at which contexts are taken.

    What follows must be long enough to tell the drafts apart.
    """
    last = num_output - options.horizon_iterations * (options.draft_length + 1)
    return list(range(0, last + 1, options.stride_tokens))


def utility(runs: Sequence[int], position: int, options: SampleOptions) -> float:
    """Return the mean committed tokens per iteration over the horizon."""
    start = position
    for _ in range(options.horizon_iterations):
        position += min(runs[position], options.draft_length) + 1
    return (position - start) / options.horizon_iterations


def _rate(runs: Sequence[int], position: int, options: SampleOptions) -> float:
    ahead = runs[position:position + options.rate_tokens]
    return sum(run > 0 for run in ahead) / len(ahead)


def state_features(recent_tokens: int, inputs: str) -> FeaturesOf:
    """Return what makes features of a target-state ranker; the trace must keep its states."""
    def features(goal: TracedGoal, positions: Sequence[int]) -> Floats:
        if goal.states is None:
            raise DataError(f"goal '{goal.id}' has no states: trace with --keep-states")
        end = len(goal.prompt_ids) - 1
        return np.stack([pooled(goal.states[:end + position], position,
                                recent_tokens=recent_tokens, inputs=inputs)
                         for position in positions])
    return features


def text_features(encoder: MiniLmEncoder, text_of: TextOf, recent_tokens: int,
                  inputs: str) -> FeaturesOf:
    """Return what makes features of an encoder ranker; all contexts of a goal in one batch."""
    def features(goal: TracedGoal, positions: Sequence[int]) -> Floats:
        texts = [text_of(goal.output_ids[max(0, position - recent_tokens):position])
                 for position in positions if position]
        known = iter(encoder.encode_all([text_of(goal.prompt_ids), *texts]))
        prompt = next(known)
        nothing = np.full(encoder.width, np.nan, dtype=np.float32)
        recent = [next(known) if position else nothing for position in positions]
        parts = {'prompt': [prompt] * len(positions), 'recent': recent}
        wanted = [np.stack(parts[name]) for name in ('prompt', 'recent')
                  if inputs in (name, 'both')]
        return np.concatenate(wanted, axis=1)
    return features
