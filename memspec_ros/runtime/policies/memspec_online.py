# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""MemSpec with online correction: the prediction is a prior, observed acceptance the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memspec_ros.boundaries import IterationOutcome
from memspec_ros.prediction.predictor import Predictor
from memspec_ros.records import ADAPTIVE_DRAFT_LENGTH
from memspec_ros.runtime.cost_model import CostModel
from memspec_ros.runtime.plan import NGRAM_DRAFT, PLAIN_DRAFT, Plan, PlanContext, best_resident

# Chosen in replay, on answers that no draft was trained on and on answers that they were, so
# that neither drafts which differ by a percent nor good specialists are served badly:
# acceptance that a score of 1 promises beyond an equal share; how near to the best a resident
# draft must come to be judged; by how much a draft must beat what can run to be loaded.
TILT = 0.3
CLOSE = 0.02
LOAD_CHARGE = 0.05
NGRAM_PRIOR_RATE = 0.5
NGRAM_PRIOR_PROPOSING = 0.3


class MemSpecOnline:
    """Ranks all arms, the n-gram draft and plain decoding included, by expected tokens/s.

    A draft's acceptance starts from what the pool's drafts have shown together, tilted by the
    predictor's score for the context, and follows what was observed: its own iterations when
    active, its catch-ups when resident (full feedback). Evidence fades, so the ranking follows
    the text. The least optimism about drafts that do not run would make decoding go from one to
    the next.

    A draft that would have to catch up first is charged for it over the interval. One that would
    have to be loaded is charged, too: loading takes processors and bandwidth from decoding, which
    the paper's GPU does not feel, so a draft is loaded only when it promises to beat clearly all
    that can run now.

    :param predictor: the prior.
    :param cost_model: times, and the acceptance estimates that the controller feeds.
    :param draft_length: fixed draft length, or -1 for each draft's best.
    """

    def __init__(self, predictor: Predictor, cost_model: CostModel, *,
                 draft_length: int = ADAPTIVE_DRAFT_LENGTH) -> None:
        self._predictor = predictor
        self._cost_model = cost_model
        self._draft_length = draft_length

    def plan(self, context: PlanContext) -> Plan:
        """Rank by expected tokens/s; W_i are the top K that are in memory or worth loading."""
        self._set_priors(context)
        names = context.candidates + context.always_resident
        absent = _absent(context)
        scores = {name: self._score(name, context) * (1.0 - LOAD_CHARGE * (name in absent))
                  for name in names}
        runnable = max(scores[name] for name in names if name not in absent)
        ranking = tuple(sorted(names, key=lambda name: -scores[name]))
        ranked = [name for name in ranking if name in context.candidates
                  and (name not in absent or scores[name] > runnable)]
        return Plan(ranking=ranking, scores=scores,
                    working_set=tuple(ranked[:context.cache_capacity]),
                    awaited=self._awaited(ranking, context),
                    protected=best_resident(ranking, context),
                    catch_up=self._worth_judging(names, scores))

    def observe(self, outcome: IterationOutcome) -> None:
        """Learn nothing here: the controller tells the cost model, which holds the evidence."""

    def observe_catch_up(self, draft: str, flags: Sequence[bool]) -> None:
        """Count what a resident draft would have had accepted."""
        self._cost_model.acceptance(draft).observe_flags(flags)

    def reset(self) -> None:
        """Forget nothing here: the controller empties the cost model's evidence."""

    def _set_priors(self, context: PlanContext) -> None:
        scores = self._predictor.predict(context.goal, context.recent_tokens).scores
        for name in context.candidates:
            self._cost_model.acceptance(name).tilt = TILT * (scores[name] - 1.0 / len(scores))
        if NGRAM_DRAFT in context.always_resident:
            ngram = self._cost_model.acceptance(NGRAM_DRAFT)
            ngram.prior, ngram.prior_proposing = NGRAM_PRIOR_RATE, NGRAM_PRIOR_PROPOSING

    def _score(self, draft: str, context: PlanContext) -> float:
        """Expected tokens/s over the next interval, the catch-up of a switch included."""
        rate, seconds = self._cost_model.pace(draft, self._draft_length)
        if seconds <= 0:
            return 0.0
        if draft not in (context.active, PLAIN_DRAFT):
            seconds += self._cost_model.catch_up_s(draft) / context.scheduling_interval
        return rate / seconds

    def _worth_judging(self, names: Sequence[str], scores: Mapping[str, float]) -> tuple[str, ...]:
        """Return the drafts whose catch-up could change the ranking (the n-gram's costs nothing).
        """
        least = (1.0 - CLOSE) * max(scores.values())
        return tuple(name for name in names if name != PLAIN_DRAFT
                     and (scores[name] >= least or name == NGRAM_DRAFT))

    def _awaited(self, ranking: Sequence[str], context: PlanContext) -> str:
        """Return d_0, awaited only where it would be run and nothing of the pool is resident."""
        if context.point or context.resident or ranking[0] in context.always_resident:
            return ''
        return ranking[0]


def _absent(context: PlanContext) -> frozenset[str]:
    """Drafts that are neither in memory nor on their way; none while memory is empty, which is
    filled with the best.
    """
    if not context.resident:
        return frozenset()
    return frozenset(context.candidates) - context.resident - frozenset(context.loading)
