# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Real models, real threads: goals under one strategy after the other, and their traces."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from memspec_ros.bench.iteration_log import IterationLog
from memspec_ros.bench.own_policies import own_policy
from memspec_ros.bench.record import GoalRecord, digest_of
from memspec_ros.bench.strategies import (
    PLAIN,
    STRATEGIES,
    Strategy,
)
from memspec_ros.bench.workloads import BenchPrompt
from memspec_ros.boundaries import Draft
from memspec_ros.config import Settings
from memspec_ros.errors import ConfigError, MemSpecError
from memspec_ros.records import FinishReason, Request, Result
from memspec_ros.replay.acceptance_table import TracedGoal
from memspec_ros.replay.goal_table import GoalTable
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.replay.tracer import trace_goal
from memspec_ros.runtime.assembly import Assembly
from memspec_ros.runtime.plan import NGRAM_DRAFT, Plan, Policy, PoolDraft
from memspec_ros.runtime.runtime import MemSpecRuntime, OnProgress, PreparedRequest


@dataclass(frozen=True, kw_only=True)
class GoalKey:
    """Which measurement: prompt of a workload, and the run."""

    workload: str
    prompt: BenchPrompt
    run: int = 0


class RealTimeBench:
    """Runs goals through the runtime as the node does, with the strategy's settings.

    Every goal starts from nothing: no draft is resident, nothing is known of their acceptance,
    and no prompt's prefix is kept.

    :param settings: what is the same for all strategies.
    :param max_tokens: output tokens per goal.
    :param unroll: draft length of traces; ``trace_tokens`` their output tokens, at least
        ``max_tokens``.
    """

    def __init__(self, assembly: Assembly, settings: Settings, *, max_tokens: int,
                 unroll: int, trace_tokens: int = 0) -> None:
        self.assembly = assembly
        self._settings = settings
        self.max_tokens = max_tokens
        self.trace_tokens = max(max_tokens, trace_tokens)
        self.unroll = unroll
        self._runtime = MemSpecRuntime(assembly, settings)
        self._strategy = ''
        self._log = IterationLog(clock=time.perf_counter,
                                 counters=assembly.draft_cache.counters,
                                 is_loading=lambda: assembly.loader.is_reading)
        assembly.controller.metrics = self._log
        assembly.draft_cache.observe_loads(self._observe_load)

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
            self._prepare(prompt, self.trace_tokens)
        except MemSpecError:
            return False
        return True

    def prompt_ids(self, prompt: BenchPrompt) -> tuple[int, ...]:
        """Return the tokens of a prompt under the chat template."""
        return self._prepare(prompt, self.max_tokens).prompt_ids

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
        self._forget()
        counters = self.assembly.draft_cache.counters
        before = replace(counters)
        result = self._generate(self._prepare(key.prompt, self.max_tokens), key.prompt)
        num_evictions = counters.num_evictions - before.num_evictions
        # Loads in flight end here, and drafts that never ran count as wasted.
        self._forget()
        return GoalRecord.of(
            self._log.goal, strategy=strategy.name, workload=key.workload, prompt=key.prompt.id,
            run=key.run, prefill_s=result.durations.prefill_s,
            wall_decode_s=result.durations.decode_s,
            first_token_s=result.durations.first_token_s,
            num_prompt_tokens=result.prompt_tokens, num_evictions=num_evictions,
            num_loads=counters.num_loads - before.num_loads,
            num_wasted_prefetches=counters.num_wasted_prefetches - before.num_wasted_prefetches,
            output=digest_of(result.token_ids), timings=self._log.timings,
            stalls=self._log.stalls())

    def trace(self, key: GoalKey) -> TracedGoal:
        """Decode a goal plainly and ask every draft at every position of its answer."""
        tokens, prompt_length, result = self.decode_plainly(key)
        traced = [self._trace_with(draft, tokens, prompt_length, result, key)
                  for draft in (*self.pool, *self._always_resident())]
        return TracedGoal(**{
            **vars(traced[0]),
            'runs': {name: runs for goal in traced for name, runs in goal.runs.items()},
            'proposed': {name: proposed for goal in traced
                         for name, proposed in goal.proposed.items()}})

    def run_policy(self, policy: Policy, prompt: BenchPrompt, on_progress: OnProgress) -> Result:
        """Run one goal under a policy that is no strategy."""
        self._strategy = ''
        self._runtime.apply(self._settings)
        self.assembly.controller.use_policy(policy)
        self._forget()
        return self._generate(self._prepare(prompt, self.max_tokens), prompt, on_progress)

    def close(self) -> None:
        """Stop the loader thread."""
        self._runtime.close()

    def bring_in(self, draft: str) -> Draft:
        """Make a draft resident, so that K need not hold the pool.

        :raises ConfigError: it cannot be loaded.
        """
        cache = self.assembly.draft_cache
        if draft in self.pool:
            cache.update(Plan(ranking=(draft,), scores={draft: 1.0}, working_set=(draft,),
                              awaited=draft))
            if not cache.wait_for(draft):
                raise ConfigError(f"draft '{draft}' cannot be loaded")
        return self.assembly.drafts[draft]

    def decode_plainly(self, key: GoalKey) -> tuple[list[int], int, Result]:
        """Return the tokens of prompt and answer, the prompt's length, and the result.

        The target's KV cache and hidden states are theirs.
        """
        self._choose(STRATEGIES[PLAIN], None, None)
        self._forget()
        prepared = self._prepare(key.prompt, self.trace_tokens)
        result = self._generate(prepared, key.prompt)
        return [*prepared.prompt_ids, *result.token_ids], len(prepared.prompt_ids), result

    def _trace_with(self, draft: str, tokens: Sequence[int], prompt_length: int, result: Result,
                    key: GoalKey) -> TracedGoal:
        return trace_goal(tokens, prompt_length, target=self.assembly.target, id=key.prompt.id,
                          drafts={draft: self.bring_in(draft)}, domain=key.workload,
                          max_draft_length=self.unroll,
                          ended=result.finish_reason is FinishReason.STOP)

    def _observe_load(self, draft: str, seconds: float) -> None:
        self.assembly.controller.cost_model.measure_load(draft, seconds)
        self._log.add_load(draft, seconds)

    def _always_resident(self) -> tuple[str, ...]:
        return (NGRAM_DRAFT,) if NGRAM_DRAFT in self.assembly.drafts else ()

    def _usable(self) -> list[PoolDraft]:
        return [draft for draft in self.drafts if draft.name in self.pool]

    def _choose(self, strategy: Strategy, table: GoalTable | None,
                profile: DeviceProfile | None) -> None:
        """Set the runtime to a strategy; for an oracle, to this goal."""
        if strategy.needs_table and (table is None or profile is None):
            raise ConfigError(f"strategy '{strategy.name}' needs the goal's acceptance table")
        if strategy.name != self._strategy or strategy.needs_table:
            self._strategy = strategy.name
            self._runtime.apply(self._settings.replace(strategy.parameters))
            policy = own_policy(strategy, table, profile, drafts=self._usable(),
                                settings=self._settings.runtime)
            if policy is not None:
                self.assembly.controller.use_policy(policy)

    def _forget(self) -> None:
        """Empty the draft cache, drop what was learnt, and let no prefix be reused."""
        self.assembly.controller.reset()
        self._runtime.reset()

    def _prepare(self, prompt: BenchPrompt, max_tokens: int) -> PreparedRequest:
        return self._runtime.prepare(Request(prompt=prompt.text, max_tokens=max_tokens))

    def _generate(self, prepared: PreparedRequest, prompt: BenchPrompt,
                  on_progress: OnProgress = lambda _: None) -> Result:
        result = self._runtime.generate(prepared, on_progress=on_progress)
        if result.error_msg:
            raise MemSpecError(f"prompt '{prompt.id}': {result.error_msg}")
        return result
