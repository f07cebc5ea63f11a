# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""General-Static and Oracle-Static: one draft for the whole answer."""

from __future__ import annotations

from collections.abc import Sequence

from memspec_ros.boundaries import IterationOutcome
from memspec_ros.runtime.plan import Plan, PlanContext, PoolDraft


class StaticDraft:
    """Keeps one draft; where it is unavailable, what needs no slot serves.

    :param draft: its name; '' keeps none (an empty pool).
    """

    def __init__(self, draft: str) -> None:
        self._draft = draft

    def plan(self, context: PlanContext) -> Plan:
        """Rank the one draft first, await it at the start of a goal."""
        kept = (self._draft,) if self._draft in context.candidates else ()
        return Plan(ranking=kept + context.always_resident, scores=dict.fromkeys(kept, 1.0),
                    working_set=kept, awaited=kept[0] if kept and context.point == 0 else '')

    def observe(self, outcome: IterationOutcome) -> None:
        """Learn nothing."""

    def observe_catch_up(self, draft: str, flags: Sequence[bool]) -> None:
        """Learn nothing."""

    def reset(self) -> None:
        """Forget nothing, as nothing is learnt."""


def general_draft(drafts: Sequence[PoolDraft]) -> str:
    """Return the draft of domain 'general', else the pool's first; '' for an empty pool."""
    general = [draft.name for draft in drafts if draft.domain == 'general']
    return (general or [draft.name for draft in drafts] or [''])[0]
