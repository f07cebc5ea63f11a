# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Predictions for traced goals: what a predictor says at every position, ahead of replay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import torch

from memspec_ros.boundaries import TokenContext
from memspec_ros.errors import DataError
from memspec_ros.prediction.predictor import Prediction, Predictor
from memspec_ros.replay.acceptance_table import AcceptanceTable, TracedGoal
from memspec_ros.replay.goal_table import GoalTable


class TracedTarget:
    """The states that a trace keeps, where a predictor looks for the target's."""

    vocab_size = 0
    end_ids: frozenset[int] = frozenset()
    first_hidden = 0

    def __init__(self, states: torch.Tensor) -> None:
        self._states = states.float()
        self.context_tokens = self.length = len(states)

    def extend(self, token_ids: Sequence[int], num_logits: int) -> torch.Tensor:
        """Refuse: there is no model.

        :raises DataError: always.
        """
        raise DataError(f'a trace has no target to run {len(token_ids)} tokens for {num_logits} '
                        'logits')

    def rollback(self, length: int) -> None:
        """Keep all states, whatever ``length``."""

    def hidden_states(self, start: int, stop: int) -> torch.Tensor:
        """States of positions ``start`` to ``stop - 1``: [stop - start, hidden_size]."""
        return self._states[start:stop]


class TracedContext:
    """A traced goal as it stood after some of its output."""

    def __init__(self, goal: TracedGoal) -> None:
        self._all = [*goal.prompt_ids, *goal.output_ids]
        self.prompt_length = len(goal.prompt_ids)
        states = torch.zeros(0, 1) if goal.states is None else goal.states
        self.target = TracedTarget(states)
        self.tokens: Sequence[int] = self._all[:self.prompt_length]

    def move_to(self, num_output: int) -> TokenContext:
        """Let it stand after so many output tokens."""
        self.tokens = self._all[:self.prompt_length + num_output]
        return self


def predictions_of(goal: TracedGoal, predictor: Predictor,
                   recent_tokens: int) -> list[Prediction]:
    """Return what a predictor says after 0 to L output tokens."""
    context = TracedContext(goal)
    return [predictor.predict(context.move_to(num_output), recent_tokens)
            for num_output in range(len(goal.output_ids) + 1)]


def predicted_tables(table: AcceptanceTable, predictor: Predictor,
                     recent_tokens: int) -> Iterator[GoalTable]:
    """Yield the goals as replay takes them, with a predictor's answers."""
    goals: Iterable[TracedGoal] = table.goals
    for goal, goal_table in zip(goals, table.goal_tables(), strict=True):
        yield replace(goal_table, predictions=predictions_of(goal, predictor, recent_tokens))
