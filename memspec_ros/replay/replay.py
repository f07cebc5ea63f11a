# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Replays goals from their acceptance tables: the real runtime on a virtual clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memspec_ros.boundaries import TokenContext
from memspec_ros.config import RuntimeSettings
from memspec_ros.errors import DataError
from memspec_ros.prediction.predictor import Prediction, Predictor
from memspec_ros.replay.goal_table import GoalTable, TableContext
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.replay.table_executor import TableExecutor
from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.replay.virtual_loader import VirtualLoader
from memspec_ros.runtime.controller import Controller
from memspec_ros.runtime.cost_model import CostModel
from memspec_ros.runtime.draft_cache import DraftCache
from memspec_ros.runtime.metrics import GoalMetrics
from memspec_ros.runtime.plan import Policy, PoolDraft
from memspec_ros.runtime.policies import policy_factory


class TabledPredictor:
    """Gives the predictions that a table holds for its goal, in the profile's time.

    :param otherwise: answers for goals whose tables hold none.
    """

    def __init__(self, otherwise: Predictor, *, clock: VirtualClock, seconds: float) -> None:
        self._otherwise = otherwise
        self._clock = clock
        self._seconds = seconds

    def predict(self, context: TokenContext, recent_tokens: int) -> Prediction:
        """Look up the prediction at the context's position."""
        self._clock.advance(self._seconds)
        if isinstance(context, TableContext) and context.table.predictions:
            return context.table.predictions[context.position]
        return self._otherwise.predict(context, recent_tokens)


@dataclass(frozen=True, kw_only=True)
class ReplayedGoal:
    """What one goal came to."""

    table: GoalTable
    metrics: GoalMetrics


class Replay:
    """One runtime on a virtual clock, for many goals in turn.

    :param drafts: the pool.
    :param predictor: what ``memspec`` and its kin ask where tables hold no predictions.
    :param policy: the policy, where it is not the one that the settings name (oracles).
    """

    def __init__(self, settings: RuntimeSettings, *, drafts: Sequence[PoolDraft],
                 profile: DeviceProfile, predictor: Predictor,
                 always_resident: tuple[str, ...] = ('',),
                 policy: Policy | None = None) -> None:
        self.clock = VirtualClock()
        self.loader = VirtualLoader(profile, self.clock)
        self._profile = profile
        self.draft_cache = DraftCache(drafts=drafts, loader=self.loader, clock=self.clock,
                                      num_slots=settings.cache_capacity)
        cost_model = measured_costs(profile, drafts, settings.max_draft_length)
        tabled = TabledPredictor(predictor, clock=self.clock, seconds=profile.prediction_s)
        factory = policy_factory(drafts=drafts, predictor=tabled, cost_model=cost_model)
        self.controller = Controller(
            settings=settings, draft_cache=self.draft_cache, cost_model=cost_model,
            make_policy=(lambda _: policy) if policy else factory,
            always_resident=always_resident, clock=self.clock)

    def run(self, tables: Iterable[GoalTable]) -> list[ReplayedGoal]:
        """Replay goals one after the other.

        :raises DataError: a table was not unrolled far enough for the draft length.
        """
        return [ReplayedGoal(table=table, metrics=self.run_goal(table)) for table in tables]

    def run_goal(self, table: GoalTable) -> GoalMetrics:
        """Replay one goal and return what it came to. Raises as above."""
        self._check(table)
        context = TableContext(table)
        executor = TableExecutor(context, profile=self._profile, clock=self.clock,
                                 loader=self.loader)
        for _ in self.controller.decode(context, executor):
            pass
        return self.controller.metrics.goal

    def _check(self, table: GoalTable) -> None:
        settings = self.controller.settings
        longest = settings.draft_length if settings.draft_length >= 0 \
            else settings.max_draft_length
        if longest > table.max_draft_length:
            raise DataError(f"goal '{table.name}' was traced for {table.max_draft_length} steps; "
                            f'a draft length of {longest} cannot be replayed from it')


def measured_costs(profile: DeviceProfile, drafts: Sequence[PoolDraft],
                   max_draft_length: int) -> CostModel:
    """Return a cost model that has measured a device profile, as configure would have."""
    model = CostModel(max_draft_length=max_draft_length)
    for width in range(1, max_draft_length + 2):
        model.measure_target(width, profile.target_s[width])
    for draft in drafts:
        model.measure_draft_step(draft.name, profile.step_s(draft.name))
        model.measure_catch_up(draft.name, profile.missed_s(draft.name, 1))
        model.measure_load(draft.name, profile.load_of(draft.name))
    return model
