# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Draft caches on a loader that loads when it is told to."""

from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.runtime.draft_cache import DraftCache
from memspec_ros.runtime.plan import Plan, PoolDraft
from memspec_ros.testing.manual_loader import ManualLoader

NAMES = ('general', 'code', 'math', 'law', 'medical')


def make_cache(*, num_slots=2, loader=None, clock=None, num_bytes=10, budget_bytes=0):
    loader = loader or ManualLoader()
    drafts = [PoolDraft(name=name, domain=name, num_bytes=num_bytes) for name in NAMES]
    return loader, DraftCache(drafts=drafts, loader=loader, num_slots=num_slots,
                              clock=clock or VirtualClock(), budget_bytes=budget_bytes)


def plan_for(*ranked, size=2, awaited=''):
    scores = {name: 1.0 - 0.1 * place for place, name in enumerate(ranked)}
    scores.update({name: 0.0 for name in NAMES if name not in scores})
    return Plan(ranking=(*ranked, ''), scores=scores, working_set=ranked[:size], awaited=awaited)


def make_resident(loader, cache, *names):
    cache.update(plan_for(*names, size=len(names)))
    for name in names:
        loader.finish(name)
    cache.poll()
    assert cache.resident == set(names)


def states(cache):
    return {status.name: status.state for status in cache.residency().drafts}
