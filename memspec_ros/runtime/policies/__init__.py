# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The strategies: General-Static to MemSpec, all answers to one question (``Policy.plan``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from memspec_ros.config import RuntimeSettings
from memspec_ros.errors import ConfigError, did_you_mean
from memspec_ros.prediction.predictor import Predictor
from memspec_ros.runtime.cost_model import CostModel
from memspec_ros.runtime.plan import Policy, PoolDraft
from memspec_ros.runtime.policies.bandit import Bandit, ucb1_index, ucb_spec_index
from memspec_ros.runtime.policies.memspec import MemSpec, PredictionOnly
from memspec_ros.runtime.policies.memspec_online import MemSpecOnline
from memspec_ros.runtime.policies.static import StaticDraft, general_draft

PolicyFactory = Callable[[RuntimeSettings], Policy]


def policy_factory(*, drafts: Sequence[PoolDraft], predictor: Predictor,
                   cost_model: CostModel) -> PolicyFactory:
    """Return what makes the policy that settings name (``runtime.policy``).

    :raises ConfigError: (when called) ``oracle_draft`` is no draft of the pool.
    """
    names = tuple(draft.name for draft in drafts)

    def oracle_static(settings: RuntimeSettings) -> Policy:
        if settings.oracle_draft not in names:
            raise ConfigError(f"runtime.oracle_draft is '{settings.oracle_draft}'; it must be one "
                              f'of {", ".join(names) or "(no drafts in the pool)"}'
                              f'{did_you_mean(settings.oracle_draft, names)}')
        return StaticDraft(settings.oracle_draft)

    def bandit_spec(settings: RuntimeSettings) -> Policy:
        length = settings.draft_length if settings.draft_length > 0 else \
            settings.max_draft_length
        return Bandit(ucb_spec_index(length), blocking=True)

    makers: Mapping[str, PolicyFactory] = {
        'general_static': lambda _: StaticDraft(general_draft(drafts)),
        'oracle_static': oracle_static,
        'mab_sync': lambda settings: Bandit(ucb1_index(settings.exploration), blocking=True),
        'mab_async': lambda settings: Bandit(ucb1_index(settings.exploration), blocking=False),
        'bandit_spec': bandit_spec,
        'prediction_only': lambda _: PredictionOnly(predictor),
        'memspec': lambda _: MemSpec(predictor),
        'memspec_online': lambda settings: MemSpecOnline(
            predictor, cost_model, draft_length=settings.draft_length),
    }
    return lambda settings: makers[settings.policy](settings)
