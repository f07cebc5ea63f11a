# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What each draft would have had accepted at each position of known outputs.

A feature-conditioned draft is unrolled over all positions at once. Any other draft is asked
position by position, through the same boundary as in serving.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from memspec_ros.boundaries import Draft
from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.training.corpus_file import Conversation
from memspec_ros.training.feature_unroll import Step, unroll
from memspec_ros.training.slots import TargetTables, make_batch, make_sequence


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Per output position: the accepted run, and how many tokens are proposed at most."""

    runs: list[int]
    proposed: list[int]


def output_of(item: Conversation, end_ids: frozenset[int]) -> tuple[tuple[int, ...], bool]:
    """The output without its end token, and whether it had one."""
    ended = bool(item.output_ids) and item.output_ids[-1] in end_ids
    return (item.output_ids[:-1] if ended else item.output_ids), ended


@torch.no_grad()
def feature_runs(weights: Mapping[str, torch.Tensor], config: FeatureConfig,
                 tables: TargetTables, head: torch.Tensor, item: Conversation, *, steps: int,
                 end_ids: frozenset[int]) -> list[int]:
    """The accepted runs of a feature-conditioned draft, one per output position.

    :param head: the borrowed rows times ``out``, [rows, width].
    :param steps: longest run looked for.
    """
    output, _ = output_of(item, end_ids)
    first = len(item.prompt_ids)
    runs = [0] * len(output)
    if first + len(output) < 3 or not output:
        return runs
    # Attention sees no slot beyond the window, and a slot's key the one before it.
    sequence = make_sequence(item, tables, num_soft=0, max_context=config.window + 1)
    skipped = first + len(item.output_ids) - 2 - len(sequence)
    batch = make_batch([sequence], tables, [sequence.is_output])
    unrolled = unroll(weights, config, batch, head, tables.row_tokens, steps)
    for number, step in enumerate(unrolled):
        for slot in _right_slots(step, end_ids):
            # Slot s of the sequence holds token s + 1 and proposes token s + 2 (of step 1's
            # start: `number` slots earlier).
            start = skipped + slot + 2 - number - first
            if 0 <= start < len(runs) and runs[start] == number:
                runs[start] += 1
    return runs


def _right_slots(step: Step, end_ids: frozenset[int]) -> list[int]:
    return [slot for slot, right, token in
            zip(step.slots.tolist(), step.right.tolist(), step.proposed.tolist(), strict=True)
            if right and token not in end_ids]


@dataclass
class _KnownTarget:
    """A target of which only the states of a known sequence are asked for."""

    states: torch.Tensor
    end_ids: frozenset[int]
    vocab_size: int
    first_hidden: int = 0

    def hidden_states(self, start: int, stop: int) -> torch.Tensor:
        """States of positions ``start`` to ``stop - 1``."""
        return self.states[start:stop]


@dataclass
class _KnownContext:
    """The first tokens of a known sequence."""

    tokens: list[int]
    prompt_length: int
    target: _KnownTarget


def boundary_runs(draft: Draft, item: Conversation, *, steps: int, end_ids: frozenset[int],
                  vocab_size: int) -> Runs:
    """The accepted runs of any draft, asked position by position."""
    output, _ = output_of(item, end_ids)
    states = item.states if item.states is not None else torch.zeros(item.num_states, 0)
    target = _KnownTarget(states=states.float(), end_ids=end_ids, vocab_size=vocab_size)
    context = _KnownContext(tokens=list(item.prompt_ids), prompt_length=len(item.prompt_ids),
                            target=target)
    draft.reset()
    runs, proposed = [], []
    for position, token in enumerate(output):
        proposal = draft.propose(context, steps)  # type: ignore[arg-type]
        proposed.append(len(proposal))
        runs.append(_shared(proposal, output[position:]))
        context.tokens.append(token)
    return Runs(runs=runs, proposed=proposed)


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    count = 0
    for mine, theirs in zip(first, second, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
