# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Real models, real threads: goals under one strategy after the other, and their traces."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from memspec_ros.bench.record import GoalRecord, digest_of
from memspec_ros.bench.strategies import NGRAM, ORACLE_DYNAMIC, ORACLE_STATIC, PLAIN, Strategy
from memspec_ros.bench.workloads import BenchPrompt
from memspec_ros.config import Settings
from memspec_ros.errors import ConfigError, MemSpecError
from memspec_ros.records import FinishReason, Request, Result
from memspec_ros.replay.acceptance_table import TracedGoal
from memspec_ros.replay.goal_table import GoalTable
from memspec_ros.replay.oracle import OracleDynamic, best_static_draft
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.replay.tracer import trace_goal
from memspec_ros.runtime.assembly import Assembly
from memspec_ros.runtime.plan import NGRAM_DRAFT, Plan, Policy, PoolDraft
from memspec_ros.runtime.policies.static import StaticDraft
from memspec_ros.runtime.runtime import MemSpecRuntime, OnProgress, PreparedRequest


@dataclass(frozen=True, kw_only=True)
class GoalKey:
    """Which measurement: prompt of a workload, and the run."""

    workload: str
    prompt: BenchPrompt
    run: int = 0


class RealTimeBench:
    """Runs goals through the runtime as the node does, with the strategy's settings.

    :param settings: what is the same for all strategies.
    :param max_tokens: output tokens per goal.
    :param unroll: draft length of traces.
    """

    def __init__(self, assembly: Assembly, settings: Settings, *, max_tokens: int,
                 unroll: int) -> None:
        self.assembly = assembly
        self._settings = settings
        self._max_tokens = max_tokens
        self.unroll = unroll
        self._runtime = MemSpecRuntime(assembly, settings)
        self._strategy = ''

    @property
    def pool(self) -> tuple[str, ...]:
        """The pool's drafts that can be used."""
        return self.assembly.draft_cache.candidates

    @property
    def drafts(self) -> tuple[PoolDraft, ...]:
        """The pool, as replay takes it."""
        return tuple(PoolDraft(name=status.name, domain=status.domain,
                               num_bytes=status.num_bytes)
                     for status in self.assembly.draft_cache.residency().drafts)

    @property
    def draft_length(self) -> int:
        """Gamma, the same for all strategies that do not choose their own."""
        return self._settings.runtime.draft_length

    def fits(self, prompt: BenchPrompt) -> bool:
        """Whether prompt and answer fit the context."""
        try:
            self._prepare(prompt)
        except MemSpecError:
            return False
        return True

    def set_bandwidth(self, load_bandwidth_mb_s: float) -> None:
        """Hold loads to a rate, for every goal from now on."""
        self._settings = self._settings.replace(
            {'draft.load_bandwidth_mb_s': load_bandwidth_mb_s})
        self._runtime.apply(self._settings)
        self._strategy = ''

    def run(self, strategy: Strategy, key: GoalKey, *, table: GoalTable | None = None,
            profile: DeviceProfile | None = None) -> GoalRecord:
        """Run one goal.

        :param table: the goal's acceptance table, for the oracles; ``profile``: their clock.
        :raises ConfigError: an oracle without its table.
        :raises MemSpecError: the goal ended with an error.
        """
        self._choose(strategy, table, profile)
        result = self._generate(key.prompt)
        return GoalRecord.of(
            self.assembly.controller.metrics.goal, strategy=strategy.name,
            workload=key.workload, prompt=key.prompt.id, run=key.run,
            prefill_s=result.durations.prefill_s, wall_decode_s=result.durations.decode_s,
            output=digest_of(result.token_ids))

    def trace(self, key: GoalKey) -> TracedGoal:
        """Decode a goal plainly and ask every draft at every position of its answer."""
        self._choose(Strategy(name=PLAIN, label='', parameters={
            'runtime.policy': 'general_static', 'runtime.draft_length': 0}), None, None)
        prepared = self._prepare(key.prompt)
        result = self._generate(key.prompt)
        tokens = [*prepared.prompt_ids, *result.token_ids]
        traced = [self._trace_with(draft, tokens, len(prepared.prompt_ids), result, key)
                  for draft in (*self.pool, *self._always_resident())]
        return TracedGoal(**{
            **vars(traced[0]),
            'runs': {name: runs for goal in traced for name, runs in goal.runs.items()},
            'proposed': {name: proposed for goal in traced
                         for name, proposed in goal.proposed.items()}})

    def run_policy(self, policy: Policy, prompt: BenchPrompt, on_progress: OnProgress) -> Result:
        """Run one goal under a policy that is no strategy."""
        self._strategy = ''
        self.assembly.controller.use_policy(policy)
        return self._generate(prompt, on_progress)

    def close(self) -> None:
        """Stop the loader thread."""
        self._runtime.close()

    def _trace_with(self, draft: str, tokens: Sequence[int], prompt_length: int, result: Result,
                    key: GoalKey) -> TracedGoal:
        """Bring one draft in, so that K need not hold the pool, and trace with it."""
        cache = self.assembly.draft_cache
        if draft in self.pool:
            cache.update(Plan(ranking=(draft,), scores={draft: 1.0}, working_set=(draft,),
                              awaited=draft))
            if not cache.wait_for(draft):
                raise ConfigError(f"draft '{draft}' cannot be loaded, so it cannot be traced")
        return trace_goal(tokens, prompt_length, target=self.assembly.target, id=key.prompt.id,
                          drafts={draft: self.assembly.drafts[draft]}, domain=key.workload,
                          max_draft_length=self.unroll,
                          ended=result.finish_reason is FinishReason.STOP)

    def _always_resident(self) -> tuple[str, ...]:
        return (NGRAM_DRAFT,) if NGRAM_DRAFT in self.assembly.drafts else ()

    def _choose(self, strategy: Strategy, table: GoalTable | None,
                profile: DeviceProfile | None) -> None:
        """Set the runtime to a strategy; for an oracle, to this goal."""
        if strategy.needs_table and (table is None or profile is None):
            raise ConfigError(f"strategy '{strategy.name}' needs the goal's acceptance table")
        if strategy.name != self._strategy or strategy.needs_table:
            self._strategy = strategy.name
            self._runtime.apply(self._settings.replace(strategy.parameters))
            policy = self._policy(strategy, table, profile)
            if policy is not None:
                self.assembly.controller.use_policy(policy)

    def _policy(self, strategy: Strategy, table: GoalTable | None,
                profile: DeviceProfile | None) -> Policy | None:
        """Return the policy that no setting names, if the strategy is one of those."""
        if strategy.name == NGRAM:
            return StaticDraft(NGRAM_DRAFT)
        if table is None or profile is None:
            return None
        if strategy.name == ORACLE_STATIC:
            return StaticDraft(best_static_draft(table, profile, drafts=self.pool,
                                                 draft_length=self.draft_length))
        if strategy.name == ORACLE_DYNAMIC:
            return OracleDynamic(profile, drafts=self.pool, draft_length=self.draft_length,
                                 clock=time.perf_counter, table_of=lambda _: table)
        return None

    def _prepare(self, prompt: BenchPrompt) -> PreparedRequest:
        return self._runtime.prepare(Request(prompt=prompt.text, max_tokens=self._max_tokens))

    def _generate(self, prompt: BenchPrompt, on_progress: OnProgress = lambda _: None) -> Result:
        result = self._runtime.generate(self._prepare(prompt), on_progress=on_progress)
        if result.error_msg:
            raise MemSpecError(f"prompt '{prompt.id}': {result.error_msg}")
        return result
