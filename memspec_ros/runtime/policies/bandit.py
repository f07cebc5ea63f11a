# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""MAB-Sync, MAB-Async and BanditSpec: exploration by upper confidence bounds.

An arm is a draft, a pull is one scheduling interval, its reward the mean number of tokens that
an iteration committed. Every arm is pulled once before indices are compared (section 4.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memspec_ros.boundaries import IterationOutcome
from memspec_ros.runtime.plan import Plan, PlanContext, ranked_plan

UNEXPLORED = 1e6


@dataclass(kw_only=True)
class Arm:
    """Pulls of one draft and the mean of their rewards."""

    num_pulls: int = 0
    mean: float = 0.0

    def add(self, reward: float) -> None:
        """Count a pull."""
        self.num_pulls += 1
        self.mean += (reward - self.mean) / self.num_pulls


Index = Callable[[Arm, int, int], float]


def ucb1_index(exploration: float) -> Index:
    """Return mean + c sqrt(ln t / n), c being ``exploration`` (the paper's best is 2.0)."""
    return lambda arm, num_pulls, _: \
        arm.mean + exploration * math.sqrt(math.log(num_pulls) / arm.num_pulls)


def ucb_spec_index(draft_length: int, confidence: float = 0.05) -> Index:
    """Return the index of UCBSpec (Hou et al. 2025, algorithm 4, equations 5 to 7).

    mean + L/2 sqrt((1 + n) / n^2 (1 + 2 log(K t^2 sqrt(1 + n) / delta))), with L the draft
    length, K the number of arms, t all pulls and n those of the arm. (The authors' released code
    adds one bonus to all arms alike, which explores nothing; this is the paper's.)
    """
    def index(arm: Arm, num_pulls: int, num_arms: int) -> float:
        n = arm.num_pulls
        log = math.log(num_arms * num_pulls ** 2 * math.sqrt(1 + n) / confidence)
        return arm.mean + draft_length / 2 * math.sqrt((1 + n) / n ** 2 * (1 + 2 * log))
    return index


class Bandit:
    """Asks for the draft of the highest index.

    :param index: upper confidence bound of an arm, from all pulls and the number of arms.
    :param blocking: wait until that draft is resident (MAB-Sync), or go on with the best
        resident one while it loads (MAB-Async).
    """

    def __init__(self, index: Index, *, blocking: bool) -> None:
        self._index = index
        self._blocking = blocking
        self.reset()

    def plan(self, context: PlanContext) -> Plan:
        """Close the pull of the last interval and rank the drafts by their index."""
        self._close_pull()
        scores = {draft: self._score(draft, len(context.candidates))
                  for draft in context.candidates}
        plan = ranked_plan(context, scores, working_set_size=1)
        if not self._blocking or not plan.working_set:
            return plan
        return Plan(ranking=plan.ranking, scores=scores, working_set=plan.working_set,
                    awaited=plan.desired)

    def observe(self, outcome: IterationOutcome) -> None:
        """Add an iteration to the pull under way."""
        self._draft = outcome.draft
        self._num_iterations += 1
        self._num_committed += outcome.num_committed

    def observe_catch_up(self, draft: str, flags: Sequence[bool]) -> None:
        """Learn nothing: a bandit sees only the arm it pulled."""

    def reset(self) -> None:
        """Forget all pulls."""
        self._arms: dict[str, Arm] = {}
        self._num_pulls = 0
        self._start_pull()

    def _start_pull(self) -> None:
        self._draft, self._num_iterations, self._num_committed = '', 0, 0

    def _close_pull(self) -> None:
        if self._num_iterations:
            self._num_pulls += 1
            self._arms.setdefault(self._draft, Arm()).add(
                self._num_committed / self._num_iterations)
        self._start_pull()

    def _score(self, draft: str, num_arms: int) -> float:
        arm = self._arms.get(draft)
        return UNEXPLORED if arm is None else self._index(arm, self._num_pulls, num_arms)
