# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The runtime controller (Algorithm 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from memspec_ros.boundaries import Clock, IterationExecutor, IterationOutcome, TokenContext
from memspec_ros.config import RuntimeSettings
from memspec_ros.records import ADAPTIVE_DRAFT_LENGTH
from memspec_ros.runtime.cost_model import CostModel
from memspec_ros.runtime.draft_cache import DraftCache
from memspec_ros.runtime.metrics import Metrics
from memspec_ros.runtime.plan import Plan, PlanContext, Policy, led_by


class JudgingExecutor(IterationExecutor, Protocol):
    """An executor that can also judge drafts that did not run."""

    def catch_up(self, draft: str) -> Sequence[bool]:
        """Bring a resident draft up to date: one flag per committed token it newly judged."""


class Controller:
    """Runs goals: N iterations, then predict, update the draft cache, take the best resident.

    It knows no strategy: the policy answers what to run and keep. One thread calls it.

    :param make_policy: makes the policy that settings ask for; called again when they change.
    :param always_resident: drafts that need no slot, better first; the last one is '' (plain).
    """

    def __init__(self, *, settings: RuntimeSettings, draft_cache: DraftCache,
                 cost_model: CostModel, make_policy: Callable[[RuntimeSettings], Policy],
                 always_resident: tuple[str, ...], clock: Clock) -> None:
        self._settings = settings
        self._draft_cache = draft_cache
        self._cost_model = cost_model
        self._make_policy = make_policy
        self._always_resident = always_resident
        self._clock = clock
        draft_cache.observe_loads(cost_model.measure_load)
        self._policy = make_policy(settings)
        self._wanted: tuple[RuntimeSettings, Policy | None] = settings, None
        self._is_policy_given = False
        self._active = ''
        self._plan = Plan(ranking=always_resident, scores={})
        self._point = 0
        self._goal_draft_length = ADAPTIVE_DRAFT_LENGTH
        self._draft_length = 0
        self.metrics = Metrics(clock=clock, counters=draft_cache.counters)

    @property
    def active(self) -> str:
        """d_i."""
        return self._active

    @property
    def cost_model(self) -> CostModel:
        """Times and acceptance, kept current."""
        return self._cost_model

    @property
    def settings(self) -> RuntimeSettings:
        """The settings in force."""
        return self._settings

    def apply(self, settings: RuntimeSettings) -> None:
        """Ask for other settings; they take effect at the next scheduling point.

        May be called from another thread.

        :raises BudgetError: K exceeds the slots that are allocated; all stays as it was.
        :raises ConfigError: the policy cannot be made.
        """
        self._draft_cache.check_capacity(settings.cache_capacity)
        is_other = _policy_settings(settings) != _policy_settings(self._settings)
        policy = self._make_policy(settings) if is_other or self._is_policy_given else None
        self._is_policy_given = False
        self._wanted = settings, policy

    def use_policy(self, policy: Policy) -> None:
        """Take a policy that no setting names (an oracle) from the next scheduling point on."""
        self._is_policy_given = True
        self._wanted = replace(self._wanted[0]), policy

    def reset(self) -> None:
        """Empty the draft cache and forget what was learnt about drafts; times stay."""
        self._draft_cache.reset()
        self._cost_model.forget_acceptance()
        self._policy.reset()
        self._active = ''

    def decode(self, goal: TokenContext, executor: JudgingExecutor, *, draft_hint: str = '',
               draft_length: int = ADAPTIVE_DRAFT_LENGTH) -> Iterator[IterationOutcome]:
        """Decode a goal whose prompt is in the target; yield each iteration until one is last.

        :param draft_hint: draft to start with; '' leaves it to the policy.
        :param draft_length: the goal's own draft length, where it is not adaptive.
        """
        self._start_goal(draft_length)
        self._schedule(goal, executor, draft_hint)
        while True:
            for _ in range(self._settings.scheduling_interval):
                outcome = self._iterate(executor)
                yield outcome
                if outcome.finished is not None:
                    return
            self._schedule(goal, executor)

    def _start_goal(self, draft_length: int) -> None:
        self.metrics.start_goal()
        self._cost_model.start_goal()
        self._point = 0
        self._plan = Plan(ranking=self._always_resident, scores={})
        self._goal_draft_length = draft_length
        self._take_settings()
        if self._settings.reset_per_goal:
            self.reset()

    def _schedule(self, goal: TokenContext, executor: JudgingExecutor,
                  draft_hint: str = '') -> None:
        """Predict the ranking, update the draft cache, activate the best resident draft."""
        started_s = self._clock()
        self._take_settings()
        self._judge(executor)
        self._draft_cache.poll()
        plan = self._policy.plan(self._context(goal))
        self._plan = led_by(plan, draft_hint) if draft_hint else plan
        self._draft_cache.update(self._plan)
        planned_s = self._clock()
        if self._plan.awaited:
            self._draft_cache.wait_for(self._plan.awaited)
        loaded_s = self._clock()
        switched = self._activate()
        self._draft_length = self._choose_draft_length()
        self.metrics.add_point(
            prediction_s=planned_s - started_s + self._clock() - loaded_s,
            load_wait_s=loaded_s - planned_s, hit=self._active == self._plan.desired,
            switched=switched, is_first=self._point == 0)
        self._point += 1

    def _context(self, goal: TokenContext) -> PlanContext:
        draft_cache = self._draft_cache
        return PlanContext(
            point=self._point, goal=goal, candidates=draft_cache.candidates,
            always_resident=self._always_resident, resident=draft_cache.resident,
            loading=draft_cache.loading, active=self._active,
            cache_capacity=draft_cache.capacity,
            scheduling_interval=self._settings.scheduling_interval,
            recent_tokens=self._settings.recent_tokens)

    def _activate(self) -> bool:
        """Take the best resident draft of the ranking; tell whether it is another one."""
        before = self._active
        self._active = next(filter(self._draft_cache.is_resident, self._plan.ranking))
        self._draft_cache.activate(self._active)
        return self._active != before

    def _iterate(self, executor: IterationExecutor) -> IterationOutcome:
        started_s = self._clock()
        outcome = executor.iterate(self._active, self._draft_length)
        self._cost_model.observe(outcome, self._draft_length)
        self._policy.observe(outcome)
        self.metrics.add_iteration(outcome, self._clock() - started_s,
                                   desired=self._active == self._plan.desired)
        return outcome

    def _choose_draft_length(self) -> int:
        """Return the goal's draft length, else the settings', else what the cost model says."""
        for draft_length in (self._goal_draft_length, self._settings.draft_length):
            if draft_length != ADAPTIVE_DRAFT_LENGTH:
                return draft_length if self._active else 0
        return self._cost_model.draft_length(self._active)

    def _judge(self, executor: JudgingExecutor) -> None:
        """Let the policy learn what resident drafts that did not run would have had accepted."""
        for draft in self._plan.catch_up:
            if draft != self._active and self._draft_cache.is_resident(draft):
                started_s = self._clock()
                flags = executor.catch_up(draft)
                self._cost_model.measure_catch_up(draft, self._clock() - started_s)
                self._policy.observe_catch_up(draft, flags)

    def _take_settings(self) -> None:
        """Make the settings asked for the ones in force; learnt things stay where they can."""
        settings, policy = self._wanted
        if settings is self._settings:
            return
        if settings.cache_capacity != self._settings.cache_capacity:
            self._draft_cache.set_capacity(settings.cache_capacity)
        self._settings = settings
        self._policy = policy or self._policy


def _policy_settings(settings: RuntimeSettings) -> tuple[object, ...]:
    """Return what a policy is made from."""
    return (settings.policy, settings.exploration, settings.oracle_draft, settings.draft_length,
            settings.max_draft_length)
