# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Measuring the cost model at configure, so that the first goal is planned on real times."""

from __future__ import annotations

from memspec_ros.boundaries import Clock, Target
from memspec_ros.runtime.cost_model import CostModel

NUM_ROUNDS = 4
WARM_UP_TOKENS = 16


def measure_target(cost_model: CostModel, target: Target, *, clock: Clock,
                   token_id: int = 1) -> None:
    """Time target passes of every width that drafting can ask for.

    All widths in turn, several times over, and the least time of each: what else the machine
    does comes and goes, and a width that looks slow for it would never be chosen, and so never
    be measured again.

    The KV cache must be free: it is filled with ``token_id`` and rolled back to empty.
    """
    target.rollback(0)
    target.extend([token_id] * WARM_UP_TOKENS, 1)
    widths = range(1, cost_model.max_draft_length + 2)
    rounds = [[_pass_s(target, [token_id] * width, clock) for width in widths]
              for _ in range(NUM_ROUNDS)]
    for width, seconds in zip(widths, zip(*rounds, strict=True), strict=True):
        cost_model.measure_target(width, min(seconds))
    target.rollback(0)


def _pass_s(target: Target, token_ids: list[int], clock: Clock) -> float:
    started_s = clock()
    target.extend(token_ids, len(token_ids))
    seconds = clock() - started_s
    target.rollback(WARM_UP_TOKENS)
    return seconds
