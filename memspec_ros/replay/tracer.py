# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Tracing a goal with the models that serve: its acceptance table, by the drafts' own code.

What a draft proposes at a position depends on the tokens alone, so asking each draft at each
position of a finished answer gives exactly what it would have had accepted there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from memspec_ros.boundaries import Draft, Target
from memspec_ros.replay.acceptance_table import TracedGoal


class PrefixContext:
    """A finished goal as it stood after some of its output; ``tokens`` is set by the tracer."""

    def __init__(self, *, prompt_length: int, target: Target) -> None:
        self.tokens: Sequence[int] = ()
        self.prompt_length = prompt_length
        self.target = target


def trace_goal(tokens: Sequence[int], prompt_length: int, *, target: Target,
               drafts: Mapping[str, Draft], max_draft_length: int, ended: bool,
               keep_states: bool = True, id: str = '', domain: str = '') -> TracedGoal:
    """Return the acceptance table of a finished goal.

    :param tokens: prompt and output; the target's KV cache and states are theirs.
    :param drafts: resident drafts; they are reset before and after.
    :param max_draft_length: steps to unroll.
    :param ended: whether an end token followed the output.
    """
    context = PrefixContext(prompt_length=prompt_length, target=target)
    traced = {name: _trace_draft(draft, context, tokens, max_draft_length)
              for name, draft in drafts.items()}
    return TracedGoal(
        id=id, domain=domain, ended=ended, prompt_ids=tuple(tokens[:prompt_length]),
        output_ids=tuple(tokens[prompt_length:]),
        runs={name: [run for run, _ in positions] for name, positions in traced.items()},
        proposed={name: [proposed for _, proposed in positions]
                  for name, positions in traced.items()},
        states=_states(target, len(tokens)) if keep_states else None)


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


def _states(target: Target, num_tokens: int) -> torch.Tensor:
    """Return the states of all positions, fp16; a row that the target has not is zero."""
    first, last = target.first_hidden, min(target.length, num_tokens)
    known = target.hidden_states(first, last)
    states = torch.zeros(num_tokens, known.shape[1], dtype=torch.float16)
    states[first:last] = known.to(device='cpu', dtype=torch.float16)
    return states


def shared_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens two sequences have in common from their start."""
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length
