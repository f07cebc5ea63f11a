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
from memspec_ros.models.target import num_threads
from memspec_ros.models.target_description import NATIVE, TargetDescription, describe_target
from memspec_ros.runtime.budget import Budget, Needs, make_budget
from memspec_ros.runtime.memory import Available, available
from memspec_ros.runtime.plan import PoolDraft

MB = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Everything known before anything is loaded.

    :param pool: None without a pool; its drafts are then none.
    :param surroundings: without the target's embedding; ``needs_embedding`` says whether a draft
        will want it.
    """

    target: TargetDescription
    pool: Pool | None
    drafts: DraftSet
    surroundings: Surroundings
    budget: Budget
    needs_embedding: bool = True

    @property
    def pool_drafts(self) -> tuple[PoolDraft, ...]:
        """The candidate set D with the bytes that each draft takes in a slot."""
        entries = self.pool.drafts if self.pool else ()
        return tuple(PoolDraft(name=entry.name, domain=entry.domain,
                               num_bytes=self.drafts.weight_bytes(entry.name))
                     for entry in entries)


def budget_of(settings: Settings, stated: Available | None = None) -> Budget:
    """Return the memory sum that configure would make. Parameters and errors as :func:`survey`."""
    return survey(settings, stated).budget


def survey(settings: Settings, stated: Available | None = None) -> Survey:
    """Read the headers of what the settings name and sum up what it takes.

    :param stated: memory of another machine, for which the sum is made: it has the device that
        is asked for. None measures this one.

    :raises ConfigError, ModelError: target or pool cannot serve; drafts that cannot are
        listed as unavailable and take no part. A target that is missing names all that is.
    """
    try:
        _confine(settings)
        target = describe_target(settings.target, elsewhere=stated is not None)
    except ModelNotFoundError as error:
        raise ModelNotFoundError('\n'.join((str(error), *_missing_drafts(settings)))) from error
    surroundings = Surroundings(
        form='fp32' if target.device == 'cpu' else 'bf16', device=target.device,
        matrix_dtype=settings.draft.dtype, num_threads=num_threads(settings.target),
        context_tokens=settings.draft.context_tokens, vocab_size=target.vocab_size,
        hidden_size=target.hidden_size)
    pool = _pool(settings)
    drafts = _draft_set(pool, surroundings)
    needs_embedding = _needs_embedding(pool, drafts)
    budget = make_budget(
        _needs(settings, target, drafts, needs_embedding), stated or available(target.device),
        cache_capacity=settings.runtime.cache_capacity,
        draft_budget_bytes=int(settings.runtime.draft_budget_mb * MB))
    return Survey(target=target, pool=pool, drafts=drafts, surroundings=surroundings,
                  budget=budget, needs_embedding=needs_embedding)


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
    expected = {entry.name: entry.expected_slot_bytes(surroundings.form,
                                                      surroundings.matrix_dtype)
                for entry in pool.drafts}
    return DraftSet(openers(pool), surroundings, expected_bytes=expected)


def _needs(settings: Settings, target: TargetDescription, drafts: DraftSet,
           needs_embedding: bool) -> Needs:
    # The target's table once more, in float32, for drafts that borrow it. A native target lends
    # its own.
    borrowed = needs_embedding and target.backend != NATIVE
    table_bytes = 4 * target.vocab_size * target.hidden_size if borrowed else 0
    return Needs(
        target_weights_bytes=target.weight_bytes, target_kv_bytes=target.kv_bytes,
        workspace_bytes=target.workspace_bytes, slot_bytes=drafts.slot_bytes,
        draft_memory_bytes=drafts.slot_memory_bytes,
        shared_bytes=drafts.staging_bytes + table_bytes,
        num_drafts=len(drafts.names), headroom_bytes=int(settings.runtime.headroom_mb * MB))


def _needs_embedding(pool: Pool | None, drafts: DraftSet) -> bool:
    """Whether a draft borrows the target's embeddings, or may do so once its file is there."""
    missing = [] if pool is None else [entry for entry in pool.drafts
                                       if entry.name in drafts.unavailable]
    return drafts.needs_embedding or any(entry.may_borrow for entry in missing)
