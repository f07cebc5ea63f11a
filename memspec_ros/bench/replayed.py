# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The same comparison in replay: any K, N, draft length, output length, device or load time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from memspec_ros.bench.own_policies import own_policy
from memspec_ros.bench.record import GoalRecord
from memspec_ros.bench.strategies import (
    Strategy,
)
from memspec_ros.bench.summary import Summary
from memspec_ros.config import RuntimeSettings, Settings
from memspec_ros.prediction.predictor import Predictor
from memspec_ros.replay.goal_table import GoalTable
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.replay.replay import Replay
from memspec_ros.runtime.plan import NGRAM_DRAFT, PLAIN_DRAFT, PoolDraft


@dataclass(frozen=True, kw_only=True)
class ReplayBench:
    """Goals of a trace, and what they are replayed on.

    :param tables: acceptance tables, with predictions.
    :param drafts: the pool.
    :param predictor: answers where a table has no predictions.
    """

    tables: Sequence[GoalTable]
    drafts: Sequence[PoolDraft]
    profile: DeviceProfile
    predictor: Predictor
    settings: RuntimeSettings

    def run(self, strategy: Strategy, *, run: int = 0) -> list[GoalRecord]:
        """Replay all goals under one strategy."""
        settings = Settings(runtime=self.settings).replace(strategy.parameters).runtime
        replayed = Replay(settings, drafts=self.drafts, profile=self.profile,
                          predictor=self.predictor, always_resident=self._always_resident())
        records = []
        for table in self.tables:
            policy = own_policy(strategy, table, self.profile, drafts=self.drafts,
                                settings=settings)
            if policy is not None:
                replayed.controller.use_policy(policy)
            records.append(GoalRecord.of(replayed.run_goal(table), strategy=strategy.name,
                                         workload=table.domain, prompt=table.name, run=run))
        return records

    def run_all(self, strategies: Sequence[Strategy]) -> list[GoalRecord]:
        """Replay all goals under each strategy."""
        return [record for strategy in strategies for record in self.run(strategy)]

    def with_settings(self, **changes: object) -> ReplayBench:
        """Return the same with other settings (K, N, draft length)."""
        return replace(self, settings=replace(self.settings, **changes))  # type: ignore[arg-type]

    def with_output(self, num_tokens: int) -> ReplayBench:
        """Return the same with answers cut at a shorter limit."""
        return replace(self, tables=[cut(table, num_tokens) for table in self.tables])

    def _always_resident(self) -> tuple[str, ...]:
        has_ngram = all(NGRAM_DRAFT in table.runs for table in self.tables)
        return (NGRAM_DRAFT, PLAIN_DRAFT) if has_ngram else (PLAIN_DRAFT,)


def cut(table: GoalTable, num_tokens: int) -> GoalTable:
    """Return a goal as it would have been under a shorter limit."""
    kept = min(num_tokens, table.num_tokens)
    return replace(
        table, num_tokens=kept, max_tokens=min(num_tokens, table.max_tokens),
        runs={draft: _cut_runs(runs, kept) for draft, runs in table.runs.items()},
        proposed={draft: proposed[:kept] for draft, proposed in table.proposed.items()},
        predictions=table.predictions[:kept + 1])


def _cut_runs(runs: Sequence[int], kept: int) -> list[int]:
    return [min(run, kept - position) for position, run in enumerate(runs[:kept])]


def agreement(replayed: Summary, real: Summary) -> Mapping[str, float]:
    """Return replayed over real throughput per strategy, geometric mean over workloads."""
    return {name: replayed.gmean[name] / value for name, value in real.gmean.items()
            if name in replayed.gmean and value > 0}
