# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Putting a runtime together at configure: budget, target, slots, loader, controller."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from memspec_ros.boundaries import Draft, Target
from memspec_ros.config import Settings
from memspec_ros.errors import DataError
from memspec_ros.models.draft_slots import DraftSlots
from memspec_ros.models.model_reference import resolve
from memspec_ros.models.ngram_draft import NgramDraft
from memspec_ros.models.pool import load_pool
from memspec_ros.models.target import LoadedTarget, load_target
from memspec_ros.models.tokenizer import Tokenizer
from memspec_ros.prediction.predictor import Predictor, UniformPredictor
from memspec_ros.prediction.predictor_file import open_predictor
from memspec_ros.records import RuntimeInfo
from memspec_ros.runtime.calibration import measure_target
from memspec_ros.runtime.controller import Controller
from memspec_ros.runtime.cost_model import CostModel
from memspec_ros.runtime.draft_cache import DraftCache
from memspec_ros.runtime.loader import ThreadLoader
from memspec_ros.runtime.plan import NGRAM_DRAFT, PLAIN_DRAFT
from memspec_ros.runtime.policies import policy_factory
from memspec_ros.runtime.survey import MB, Survey, budget_of, survey

__all__ = ['Assembly', 'ResidentDrafts', 'assemble', 'budget_of']

Report = Callable[[str], None]


class ResidentDrafts(Mapping[str, Draft]):
    """The drafts that can run now, by name: those in slots and those that need none."""

    def __init__(self, draft_cache: DraftCache, slots: DraftSlots,
                 always_resident: Mapping[str, Draft]) -> None:
        self._draft_cache = draft_cache
        self._slots = slots
        self._always_resident = always_resident

    def __getitem__(self, name: str) -> Draft:
        """Return a resident draft (KeyError when it is not)."""
        if name in self._always_resident:
            return self._always_resident[name]
        return self._slots.draft(self._draft_cache.slot_of(name), name)

    def __iter__(self) -> Iterator[str]:
        yield from self._always_resident
        yield from self._draft_cache.resident

    def __len__(self) -> int:
        return len(self._always_resident) + len(self._draft_cache.resident)


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """What serves goals, put together."""

    target: Target
    tokenizer: Tokenizer
    drafts: Mapping[str, Draft]
    draft_names: tuple[str, ...]
    draft_cache: DraftCache
    loader: ThreadLoader
    controller: Controller
    info: RuntimeInfo
    predictor: Predictor = dataclasses.field(default_factory=lambda: UniformPredictor(()))
    target_checksum: str = ''


def assemble(settings: Settings, report: Report) -> Assembly:
    """Check the budget, load the target, allocate the slots and measure the passes.

    :param report: told of each stage, with sizes, before it begins.
    :raises ConfigError, ModelError, BudgetError: what is wrong, which file, and the limit.
    """
    found = survey(settings)
    found.budget.check()
    report(found.budget.describe())
    loaded = load_target(settings.target, report=report)
    if found.pool is not None:
        load_pool(found.pool.path, loaded.tokenizer.content_checksum())
    for name, reason in found.drafts.unavailable.items():
        report(f"draft '{name}' is unavailable: {reason}")
    slots = _allocate(found, loaded, report)
    loader = ThreadLoader({name: slots.source(name) for name in found.drafts.names},
                          load_bandwidth_mb_s=settings.draft.load_bandwidth_mb_s)
    try:
        return _connect(settings, found, loaded, slots, loader, report)
    except BaseException:
        loader.shutdown()
        raise


def _allocate(found: Survey, loaded: LoadedTarget, report: Report) -> DraftSlots:
    if found.budget.num_slots:
        report(f'allocating {found.budget.num_slots} slots of '
               f'{found.drafts.slot_bytes / MB:.1f} MB for drafts')
    borrowed = found.budget.num_slots and found.needs_embedding
    embedding = loaded.shared_embedding() if borrowed else None
    surroundings = dataclasses.replace(
        found.surroundings, embedding=embedding,
        tokenizer_checksum=loaded.tokenizer.content_checksum())
    return DraftSlots(found.drafts, num_slots=found.budget.num_slots, surroundings=surroundings)


def _connect(settings: Settings, found: Survey, loaded: LoadedTarget, slots: DraftSlots,
             loader: ThreadLoader, report: Report) -> Assembly:
    """Make controller, draft cache and policies over what is in memory now."""
    pool_drafts = found.pool_drafts
    draft_cache = DraftCache(
        drafts=pool_drafts, loader=loader, num_slots=found.budget.num_slots,
        clock=time.perf_counter, budget_bytes=int(settings.runtime.draft_budget_mb * MB),
        give_back=slots.give_back)
    cost_model = CostModel(max_draft_length=settings.runtime.max_draft_length)
    measure_target(cost_model, loaded.target, clock=time.perf_counter)
    ngram: dict[str, Draft] = {} if not settings.draft.ngram else {
        NGRAM_DRAFT: NgramDraft(name=NGRAM_DRAFT, max_size=settings.draft.ngram_max)}
    predictor = _predictor(settings, found, loaded, report)
    controller = Controller(
        settings=settings.runtime, draft_cache=draft_cache, cost_model=cost_model,
        make_policy=policy_factory(drafts=pool_drafts, cost_model=cost_model,
                                   predictor=predictor),
        always_resident=(*ngram, PLAIN_DRAFT), clock=time.perf_counter)
    names = (*(draft.name for draft in pool_drafts), *ngram)
    return Assembly(
        target=loaded.target, tokenizer=loaded.tokenizer, draft_names=names, loader=loader,
        drafts=ResidentDrafts(draft_cache, slots, ngram), draft_cache=draft_cache,
        controller=controller, predictor=predictor, target_checksum=loaded.checksum,
        info=_info(settings, found, loaded, names))


def _predictor(settings: Settings, found: Survey, loaded: LoadedTarget,
               report: Report) -> Predictor:
    """The predictor that is set, or the pool's own where it is one for this target.

    A pool serves other forms of its target, too, whose states the predictor has not seen.
    """
    names: Sequence[str] = found.drafts.names
    path = resolve(settings.runtime.predictor) if settings.runtime.predictor else \
        found.pool.predictor_path if found.pool else None
    if path is None:
        return UniformPredictor(names)
    try:
        return open_predictor(path, drafts=names, hidden_size=found.target.hidden_size,
                              text_of=loaded.tokenizer.decode, target=loaded.checksum)
    except DataError as error:
        if settings.runtime.predictor:
            raise
        report(f"the pool's predictor is left out: {error}")
        return UniformPredictor(names)


def _info(settings: Settings, found: Survey, loaded: LoadedTarget,
          names: tuple[str, ...]) -> RuntimeInfo:
    budget = found.budget
    return RuntimeInfo(
        target_model=settings.target.model, architecture=found.target.architecture,
        dtype=found.target.dtype, device=found.target.device,
        vocab_size=found.target.vocab_size, context_tokens=found.target.context_tokens,
        has_chat_template=loaded.tokenizer.has_chat_template, policy=settings.runtime.policy,
        scheduling_interval=settings.runtime.scheduling_interval, drafts=names,
        memory=tuple((item.name, item.num_bytes) for item in budget.items),
        memory_sum_bytes=budget.total_bytes, memory_available_bytes=budget.available_bytes)
