# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The policies of strategies that no setting names, the same in real time and in replay."""

from __future__ import annotations

from collections.abc import Sequence

from memspec_ros.bench.followed_plans import plan_ahead
from memspec_ros.bench.strategies import (
    NGRAM,
    ORACLE_ALL,
    ORACLE_STATIC,
    PLAIN,
    PLANNED_AHEAD,
    Strategy,
)
from memspec_ros.config import RuntimeSettings
from memspec_ros.replay.goal_table import GoalTable
from memspec_ros.replay.oracle import best_static_draft
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.runtime.plan import NGRAM_DRAFT, PLAIN_DRAFT, Policy, PoolDraft
from memspec_ros.runtime.policies.static import StaticDraft


def own_policy(strategy: Strategy, table: GoalTable | None, profile: DeviceProfile | None, *,
               drafts: Sequence[PoolDraft], settings: RuntimeSettings) -> Policy | None:
    """Return a strategy's own policy for a goal; None where the settings name it.

    :param table: the goal's acceptance table, and ``profile`` the clock: for the oracles.
    """
    if strategy.kind in (PLAIN, NGRAM):
        return StaticDraft({PLAIN: PLAIN_DRAFT, NGRAM: NGRAM_DRAFT}[strategy.kind])
    if table is None or profile is None:
        return None
    if strategy.name == ORACLE_STATIC:
        return StaticDraft(best_static_draft(
            table, profile, drafts=[draft.name for draft in drafts],
            draft_length=settings.draft_length))
    if strategy.name in PLANNED_AHEAD:
        return plan_ahead(table, profile, drafts=drafts, settings=settings,
                          all_arms=strategy.name == ORACLE_ALL)
    return None
