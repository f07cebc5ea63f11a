# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Tracing a goal with the models that serve: its acceptance table, by the drafts' own code.

What a draft proposes at a position depends on the tokens alone, so asking each draft at each
position of a finished answer gives exactly what it would have had accepted there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memspec_ros.boundaries import Draft, Target, TokenContext
from memspec_ros.prediction.predictor import Prediction, Predictor
from memspec_ros.replay.goal_table import GoalTable


class PrefixContext:
    """A finished goal as it stood after some of its output; ``tokens`` is set by the tracer."""

    def __init__(self, *, prompt_length: int, target: Target) -> None:
        self.tokens: Sequence[int] = ()
        self.prompt_length = prompt_length
        self.target = target


def trace_goal(tokens: Sequence[int], prompt_length: int, *, target: Target,
               drafts: Mapping[str, Draft], predictor: Predictor | None = None,
               max_draft_length: int, max_tokens: int, recent_tokens: int = 64,
               name: str = '', domain: str = '') -> GoalTable:
    """Return the acceptance table of a finished goal.

    :param tokens: prompt and output; the target's KV cache and states are theirs.
    :param drafts: resident drafts; they are reset before and after.
    :param predictor: asked at every position, where it is given.
    :param max_draft_length: steps to unroll.
    :param max_tokens: the goal's limit on output.
    """
    context = PrefixContext(prompt_length=prompt_length, target=target)
    traced = {draft.name: _trace_draft(draft, context, tokens, max_draft_length)
              for draft in drafts.values()}
    return GoalTable(
        name=name, domain=domain, prompt_length=prompt_length,
        num_tokens=len(tokens) - prompt_length, max_tokens=max_tokens,
        max_draft_length=max_draft_length,
        runs={draft: [run for run, _ in positions] for draft, positions in traced.items()},
        proposed={draft: [proposed for _, proposed in positions]
                  for draft, positions in traced.items()},
        predictions=_predictions(predictor, context, tokens, recent_tokens))


def _trace_draft(draft: Draft, context: PrefixContext, tokens: Sequence[int],
                 max_draft_length: int) -> list[tuple[int, int]]:
    """Return accepted run and number proposed at each output position."""
    draft.reset()
    traced = []
    for position in range(context.prompt_length, len(tokens)):
        context.tokens = tokens[:position]
        proposals = draft.propose(context, max_draft_length)
        expected = tokens[position:position + len(proposals)]
        traced.append((shared_length(proposals, expected), len(proposals)))
    draft.reset()
    return traced


def _predictions(predictor: Predictor | None, context: PrefixContext, tokens: Sequence[int],
                 recent_tokens: int) -> list[Prediction]:
    if predictor is None:
        return []
    predictions = []
    goal: TokenContext = context
    for position in range(context.prompt_length, len(tokens) + 1):
        context.tokens = tokens[:position]
        predictions.append(predictor.predict(goal, recent_tokens))
    return predictions


def shared_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens two sequences have in common from their start."""
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length
