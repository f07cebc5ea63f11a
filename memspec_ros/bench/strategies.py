# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The strategies that are compared, as settings of the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memspec_ros.config import POLICIES
from memspec_ros.errors import ConfigError, did_you_mean

PLAIN = 'plain'
NGRAM = 'ngram'
ORACLE_STATIC = 'oracle_static'
ORACLE_DYNAMIC = 'oracle_dynamic'
ORACLE_ALL = 'oracle_all'
PLANNED_AHEAD = (ORACLE_DYNAMIC, ORACLE_ALL)
ONLINE_ADAPTIVE = 'memspec_online_adaptive'


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One way to run.

    :param parameters: what it sets, by dotted name; the rest is the same for all.
    :param needs_table: whether it needs the acceptance table of each goal (the oracles).
    :param runs_as: the strategy that it is under another name.
    """

    name: str
    label: str
    parameters: dict[str, Any] = field(default_factory=dict)
    needs_table: bool = False
    runs_as: str = ''

    @property
    def kind(self) -> str:
        """The strategy that runs."""
        return self.runs_as or self.name


def _policy(name: str, label: str) -> Strategy:
    return Strategy(name=name, label=label, parameters={'runtime.policy': name})


STRATEGIES = {strategy.name: strategy for strategy in (
    Strategy(name=PLAIN, label='Plain decoding', parameters={
        'runtime.policy': 'general_static', 'runtime.draft_length': 0}),
    Strategy(name=NGRAM, label='N-gram alone', parameters={'runtime.policy': 'general_static'}),
    _policy('general_static', 'General-Static'),
    Strategy(name=ORACLE_STATIC, label='Oracle-Static', needs_table=True),
    _policy('mab_sync', 'MAB-Sync'),
    _policy('mab_async', 'MAB-Async'),
    _policy('bandit_spec', 'BanditSpec'),
    _policy('prediction_only', 'Prediction-Only'),
    _policy('memspec', 'MemSpec'),
    _policy('memspec_online', 'MemSpec, online'),
    Strategy(name=ONLINE_ADAPTIVE, label='MemSpec, online, adaptive length', parameters={
        'runtime.policy': 'memspec_online', 'runtime.draft_length': -1}),
    Strategy(name=ORACLE_DYNAMIC, label='Oracle-Dynamic', needs_table=True),
    Strategy(name=ORACLE_ALL, label='Oracle-Dynamic, n-gram and plain too', needs_table=True),
)}
assert set(POLICIES) <= set(STRATEGIES)


def static_strategy(draft: str, label: str = '') -> Strategy:
    """Return the strategy that keeps one draft of the pool."""
    return Strategy(name=draft, label=label or draft, parameters={
        'runtime.policy': 'oracle_static', 'runtime.oracle_draft': draft})


def choose_strategies(names: Sequence[str]) -> list[Strategy]:
    """Return strategies by name; none named means all.

    :raises ConfigError: an unknown name.
    """
    for name in names:
        if name not in STRATEGIES:
            raise ConfigError(f"there is no strategy '{name}'{did_you_mean(name, STRATEGIES)} "
                              f'(known: {", ".join(STRATEGIES)})')
    return [STRATEGIES[name] for name in names or STRATEGIES]
