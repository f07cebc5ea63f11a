# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a policy is asked at a scheduling point, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memspec_ros.boundaries import IterationOutcome, TokenContext

NGRAM_DRAFT = 'ngram'
PLAIN_DRAFT = ''


@dataclass(frozen=True, kw_only=True)
class PoolDraft:
    """One draft of the candidate set D that takes a slot: its name, domain and bytes."""

    name: str
    domain: str = ''
    num_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class PlanContext:
    """Where decoding stands at scheduling point i (the paper's x_i, G_i, d_i, K, N and T).

    ``candidates`` are the drafts of D that can be used now (the unavailable ones left out), in
    the pool's order; ``always_resident`` need no slot and come after them when all else is
    equal (the n-gram draft, and the plain arm '' which drafts nothing).
    """

    point: int
    goal: TokenContext
    candidates: tuple[str, ...]
    always_resident: tuple[str, ...]
    resident: frozenset[str]
    loading: tuple[str, ...]
    active: str
    cache_capacity: int
    scheduling_interval: int
    recent_tokens: int = 64


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A policy's answer: the ranked list R_i with its scores, and the working set W_i.

    :param ranking: drafts to run, best first; the controller runs the first that is resident.
        It ends with the always-resident ones, so there always is one.
    :param scores: a score per ranked draft; the draft cache evicts in ascending order.
    :param working_set: drafts to have resident, most wanted first; at most K are heeded.
    :param awaited: decoding stops until this draft is resident: d_0, and what MAB-Sync picks.
    :param protected: the draft that is not to be evicted for the working set; None is the active
        one (the paper's rule). A policy that knows it will go on with another may free
        the active one's slot an interval earlier.
    :param catch_up: resident drafts that are judged on the interval's tokens when it ends.
    """

    ranking: tuple[str, ...]
    scores: Mapping[str, float]
    working_set: tuple[str, ...] = ()
    awaited: str = ''
    protected: str | None = None
    catch_up: tuple[str, ...] = ()

    @property
    def desired(self) -> str:
        """The draft that would run if all were resident."""
        return self.ranking[0]


class Policy(Protocol):
    """A strategy: it answers what to run and keep, and is told what happened."""

    def plan(self, context: PlanContext) -> Plan:
        """Rank the drafts and choose the working set at a scheduling point."""

    def observe(self, outcome: IterationOutcome) -> None:
        """Learn what an iteration did."""

    def observe_catch_up(self, draft: str, flags: Sequence[bool]) -> None:
        """Learn which committed tokens a draft that did not run would have proposed."""

    def reset(self) -> None:
        """Forget all that was observed (the paper's reset before each prompt)."""


def ranked_plan(context: PlanContext, scores: Mapping[str, float], *, working_set_size: int,
                awaits_first: bool = True) -> Plan:
    """Return the plan of Algorithm 1: drafts sorted by score, W_i their top ``working_set_size``.

    Drafts of equal score keep the pool's order. d_0 is awaited at the first scheduling point.
    """
    ranked = tuple(sorted(context.candidates, key=lambda draft: -scores[draft]))
    return Plan(ranking=ranked + context.always_resident, scores=scores,
                working_set=ranked[:working_set_size],
                awaited=ranked[0] if awaits_first and ranked and context.point == 0 else '')


def best_resident(ranking: Sequence[str], context: PlanContext) -> str:
    """Return the draft that the controller would run if the ranking were the plan's."""
    return next((name for name in ranking
                 if name in context.resident or name in context.always_resident), '')


def led_by(plan: Plan, draft: str) -> Plan:
    """Return the plan with one draft (a goal's hint) moved to its front."""
    ranking = (draft, *(name for name in plan.ranking if name != draft))
    working_set = (draft, *(name for name in plan.working_set if name != draft))
    best = max(plan.scores.values(), default=0.0)
    return Plan(ranking=ranking, scores={**plan.scores, draft: best}, working_set=working_set,
                awaited=draft if plan.awaited else '', catch_up=plan.catch_up)
