# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the settings would open, from headers alone: files, drafts, and the memory sum."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass

from memspec_ros.config import Settings
from memspec_ros.errors import DependencyError, MemSpecError, ModelError, ModelNotFoundError
from memspec_ros.models.draft_kinds import Surroundings
from memspec_ros.models.draft_set import DraftSet
from memspec_ros.models.model_reference import resolve
from memspec_ros.models.model_roots import ModelRoots
from memspec_ros.models.pool import Pool, load_pool
from memspec_ros.models.pool_files import draft_path, openers, unavailable_drafts
from memspec_ros.models.target_description import NATIVE, TargetDescription, describe_target
from memspec_ros.runtime.budget import Budget, Needs, make_budget
from memspec_ros.runtime.memory import available
from memspec_ros.runtime.plan import PoolDraft

MB = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Everything known before anything is loaded.

    :param pool: None without a pool; its drafts are then none.
    :param surroundings: without the target's embedding.
    """

    target: TargetDescription
    pool: Pool | None
    drafts: DraftSet
    surroundings: Surroundings
    budget: Budget

    @property
    def pool_drafts(self) -> tuple[PoolDraft, ...]:
        """The candidate set D with the bytes that each draft takes in a slot."""
        entries = self.pool.drafts if self.pool else ()
        return tuple(PoolDraft(name=entry.name, domain=entry.domain,
                               num_bytes=self.drafts.weight_bytes(entry.name))
                     for entry in entries)


def budget_of(settings: Settings) -> Budget:
    """Return the memory sum that configure would make. Raises as :func:`survey`."""
    return survey(settings).budget


def survey(settings: Settings) -> Survey:
    """Read the headers of what the settings name and sum up what it takes.

    :raises ConfigError, ModelError: target or pool cannot serve; drafts that cannot are
        listed as unavailable and take no part. A target that is missing names all that is.
    """
    try:
        _confine(settings)
        target = describe_target(settings.target)
    except ModelNotFoundError as error:
        raise ModelNotFoundError('\n'.join((str(error), *_missing_drafts(settings)))) from error
    surroundings = Surroundings(
        form='fp32' if target.device == 'cpu' else 'bf16', device=target.device,
        context_tokens=settings.draft.context_tokens, vocab_size=target.vocab_size,
        hidden_size=target.hidden_size)
    pool = _pool(settings)
    drafts = _draft_set(pool, surroundings)
    budget = make_budget(
        _needs(settings, target, drafts), available(target.device),
        cache_capacity=settings.runtime.cache_capacity,
        draft_budget_bytes=int(settings.runtime.draft_budget_mb * MB))
    return Survey(target=target, pool=pool, drafts=drafts, surroundings=surroundings,
                  budget=budget)


def _pool(settings: Settings) -> Pool | None:
    if not settings.draft.pool:
        return None
    roots = ModelRoots(settings.server.model_roots)
    path = roots.require(resolve(settings.draft.pool), 'draft.pool')
    pool = dataclasses.replace(load_pool(path).select(settings.draft.names), roots=roots)
    for entry in pool.drafts:
        # A draft that is not there is told with the others; one that is elsewhere ends configure.
        with contextlib.suppress(ModelError, DependencyError):
            draft_path(pool, entry)
    return pool


def _confine(settings: Settings) -> None:
    """Refuse what the settings name outside of the roots, before anything of it is read."""
    roots = ModelRoots(settings.server.model_roots)
    for name, reference in (('target.model', settings.target.model),
                            ('target.tokenizer', settings.target.tokenizer),
                            ('runtime.predictor', settings.runtime.predictor)):
        if reference:
            roots.require(resolve(reference), name)


def _missing_drafts(settings: Settings) -> list[str]:
    """Return what is wrong with the drafts, so that one message says all that has to be got."""
    try:
        pool = _pool(settings)
    except MemSpecError as error:
        return [str(error)]
    return list(unavailable_drafts(pool).values()) if pool else []


def _draft_set(pool: Pool | None, surroundings: Surroundings) -> DraftSet:
    if pool is None:
        return DraftSet({}, surroundings)
    expected = {entry.name: entry.expected_slot_bytes(surroundings.form)
                for entry in pool.drafts}
    return DraftSet(openers(pool), surroundings, expected_bytes=expected)


def _needs(settings: Settings, target: TargetDescription, drafts: DraftSet) -> Needs:
    return Needs(
        target_weights_bytes=target.weight_bytes, target_kv_bytes=target.kv_bytes,
        workspace_bytes=target.workspace_bytes, slot_bytes=drafts.slot_bytes,
        draft_memory_bytes=drafts.slot_memory_bytes,
        shared_bytes=drafts.staging_bytes + _embedding_bytes(target, drafts),
        num_drafts=len(drafts.names), headroom_bytes=int(settings.runtime.headroom_mb * MB))


def _embedding_bytes(target: TargetDescription, drafts: DraftSet) -> int:
    """Return what the target's table takes again, in float32, for drafts that borrow it.

    A native target lends its own.
    """
    if not drafts.names or target.backend == NATIVE:
        return 0
    return 4 * target.vocab_size * target.hidden_size
