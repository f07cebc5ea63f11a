# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A pool's drafts as the node runs them, all resident, for tables that hold to the token."""

from __future__ import annotations

from memspec_ros.boundaries import Draft
from memspec_ros.config import DraftSettings
from memspec_ros.errors import ModelError
from memspec_ros.models.draft_kinds import Surroundings
from memspec_ros.models.draft_set import DraftSet
from memspec_ros.models.draft_slots import DraftSlots
from memspec_ros.models.pool import Pool
from memspec_ros.models.pool_files import openers
from memspec_ros.training.trained_target import TrainedTarget


def served_drafts(pool: Pool, target: TrainedTarget) -> dict[str, Draft]:
    """Read every draft of a pool into a slot of its own.

    :raises ModelError: a draft cannot serve.
    """
    embedding = target.weights.embedding if target.served is None else target.served.embedding
    surroundings = Surroundings(
        form='fp32', context_tokens=DraftSettings().context_tokens,
        vocab_size=target.config.vocab_size, hidden_size=target.config.hidden_size,
        embedding=embedding, tokenizer_checksum=target.tokenizer.content_checksum())
    found = DraftSet(openers(pool), surroundings)
    if found.unavailable:
        raise ModelError('; '.join(f"draft '{name}': {reason}"
                                   for name, reason in found.unavailable.items()))
    slots = DraftSlots(found, num_slots=len(found.names), surroundings=surroundings)
    for slot, name in enumerate(found.names):
        slots.source(name)(slot, should_cancel=lambda: False, throttle=lambda _: None)
    return {name: slots.draft(slot, name) for slot, name in enumerate(found.names)}
