# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether an acceptance table says what the running loop does, goal by goal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from memspec_ros.boundaries import Draft, Target
from memspec_ros.decoding.generation import Generation
from memspec_ros.decoding.iteration import ModelExecutor
from memspec_ros.decoding.prefill import Prefill
from memspec_ros.decoding.text_stream import TextStream
from memspec_ros.decoding.token_choice import TokenChoice
from memspec_ros.records import SamplingOptions
from memspec_ros.replay.acceptance_table import AcceptanceTable, TracedGoal
from memspec_ros.training.draft_matrix import num_iterations

CHUNK_TOKENS = 128


@dataclass(frozen=True, kw_only=True)
class Check:
    """How many goals ran, and those whose tokens or iterations were not the table's."""

    num_runs: int
    differing: tuple[str, ...]

    def __str__(self) -> str:
        told = f'{self.num_runs - len(self.differing)} of {self.num_runs} runs of the loop took ' \
            'the iterations that the table says'
        return f'{told}; not: {", ".join(self.differing)}' if self.differing else told


def check_table(table: AcceptanceTable, target: Target, drafts: Mapping[str, Draft], *,
                draft_length: int, goals_per_domain: int) -> Check:
    """Run goals with each draft that is general, of their domain, or has no weights.

    :param target: as the table's answers were made.
    :param goals_per_domain: the first of each.
    """
    seen: Counter[str] = Counter()
    num_runs, differing = 0, []
    for goal in table.goals:
        seen[goal.domain] += 1
        if seen[goal.domain] > goals_per_domain:
            continue
        for name, traced in table.drafts.items():
            if name not in drafts or traced.domain not in ('', 'general', goal.domain):
                continue
            num_runs += 1
            if _iterations(goal, target, name, drafts[name], draft_length,
                           table.max_tokens) != num_iterations(goal, name, draft_length):
                differing.append(f'{goal.id} with {name}')
    return Check(num_runs=num_runs, differing=tuple(differing))


def _iterations(goal: TracedGoal, target: Target, name: str, draft: Draft, draft_length: int,
                max_tokens: int) -> int:
    """Iterations of the running loop; -1 when its answer is another."""
    target.rollback(0)
    draft.reset()
    generation = Generation(target=target, prompt=goal.prompt_ids, max_tokens=max_tokens,
                            text=TextStream(lambda token: b'%d ' % token))
    for _ in Prefill(target, CHUNK_TOKENS).run(goal.prompt_ids):
        pass
    executor = ModelExecutor(target=target, drafts={name: draft}, generation=generation,
                             choice=TokenChoice(SamplingOptions(), 0), clock=time.perf_counter)
    count = 0
    while generation.finish_reason is None:
        executor.iterate(name, draft_length)
        count += 1
    return count if tuple(generation.output) == tuple(goal.output_ids) else -1
