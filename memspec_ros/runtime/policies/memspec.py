# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""MemSpec, and Prediction-Only: drafts ranked by what the prediction engine says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memspec_ros.boundaries import IterationOutcome
from memspec_ros.prediction.predictor import Predictor
from memspec_ros.runtime.plan import Plan, PlanContext, ranked_plan

# Both were chosen in replay, on answers that no draft was trained on and on some that they were.
# What scores must differ by to mean anything.
INDIFFERENCE = 0.15
# The probability from which a draft is loaded before it is wanted. On a machine whose processors
# load and decode, a load costs tokens even where it holds nothing up.
WORTH_PREFETCHING = 0.3


class MemSpec:
    """Keeps the best predicted drafts resident and runs the best that is (Algorithms 1 to 3).

    W_i are the top K, but for those that are neither in memory nor likely to be wanted.

    Scores that differ by less than ``INDIFFERENCE`` say the same, and of drafts that are as good
    the one in use goes before the one in memory, and that before the absent one. The paper's
    algorithms leave this open; without it, noise in the scores of drafts that are alike makes
    loads, and every load is paid for by fallback.

    :param predictor: gives P(d | x_i) for every draft of the pool.
    """

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def plan(self, context: PlanContext) -> Plan:
        """Rank by the predicted score and by what is at hand; W_i are the top K."""
        scores = self._predictor.predict(context.goal, context.recent_tokens).scores
        at_hand = context.resident | frozenset(context.loading)
        held = {draft: score + INDIFFERENCE * ((draft in at_hand) + (draft == context.active))
                for draft, score in scores.items()}
        plan = ranked_plan(context, held, working_set_size=context.cache_capacity)
        return replace(plan, working_set=tuple(
            draft for draft in plan.working_set if draft == plan.desired or draft in at_hand
            or scores[draft] >= WORTH_PREFETCHING))

    def observe(self, outcome: IterationOutcome) -> None:
        """Learn nothing: the predictor was trained offline."""

    def observe_catch_up(self, draft: str, flags: Sequence[bool]) -> None:
        """Learn nothing."""

    def reset(self) -> None:
        """Forget nothing, as nothing is learnt."""


class PredictionOnly(MemSpec):
    """Asks for the predicted draft when it is predicted: one load at a time, no working set."""

    def plan(self, context: PlanContext) -> Plan:
        """Rank by the predicted score; want the best only, once the load in flight has ended."""
        scores = self._predictor.predict(context.goal, context.recent_tokens).scores
        plan = ranked_plan(context, scores, working_set_size=1)
        if not context.loading:
            return plan
        return Plan(ranking=plan.ranking, scores=scores, working_set=context.loading,
                    awaited=plan.awaited)
