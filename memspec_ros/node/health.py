# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The rules of /diagnostics: when the node is OK, when it warns, and when it is in error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memspec_ros.config import MachineSettings
from memspec_ros.records import DraftState, Health, Residency, Throughput
from memspec_ros.runtime.memory_watch import MemoryState

# Fullness of the queue from which on a client should expect to be refused soon.
QUEUE_WARN_SHARE = 0.8
# Below this acceptance a draft costs more than it brings, whatever its size.
LOW_ACCEPTANCE = 0.1
MEGABYTE = 1_000_000
# How a draft's reason begins when its load stands still.
STALLED = 'stalled'


@dataclass(frozen=True, kw_only=True)
class Check:
    """One component's state, and the figures it follows from."""

    name: str
    level: Health
    message: str
    values: Mapping[str, object] = field(default_factory=dict)


def check_lifecycle(state: str, last_error: str, uptime_s: float) -> Check:
    """OK while active, WARN in other states, ERROR after a transition that failed."""
    if last_error:
        level, message = Health.ERROR, last_error
    else:
        level = Health.OK if state == 'active' else Health.WARN
        message = state
    return Check(name='lifecycle', level=level, message=message,
                 values={'state': state, 'uptime_s': round(uptime_s)})


def check_queue(num_waiting: int, capacity: int, num_ended: int, num_failed: int) -> Check:
    """OK with room, WARN from 80 % on, ERROR when the next goal is refused."""
    if num_waiting >= capacity:
        level, message = Health.ERROR, f'full: all {capacity} places are taken'
    elif num_waiting >= QUEUE_WARN_SHARE * capacity:
        level, message = Health.WARN, f'{num_waiting} of {capacity} places are taken'
    else:
        level, message = Health.OK, f'{num_waiting} goals wait'
    return Check(name='goal queue', level=level, message=message, values={
        'num_waiting': num_waiting, 'queue_capacity': capacity, 'num_ended': num_ended,
        'num_failed': num_failed})


def check_drafts(residency: Residency) -> Check:
    """OK with all drafts usable and K as asked for, WARN when not, ERROR when none is usable."""
    unusable = [draft for draft in residency.drafts if draft.state is DraftState.UNAVAILABLE]
    total = len(residency.drafts)
    reasons = '; '.join(f'{draft.name}: {draft.reason or "unavailable"}' for draft in unusable)
    stalled = [draft.name for draft in residency.drafts
               if draft.state is DraftState.LOADING and draft.reason.startswith(STALLED)]
    problems = [f'{len(unusable)} of {total} drafts cannot be used: {reasons}'] * bool(unusable)
    problems += [f'reading {", ".join(stalled)} has stalled'] * bool(stalled)
    if residency.capacity_reason:
        problems.append(f'K is {residency.cache_capacity}: {residency.capacity_reason}')
    level = Health.OK if not problems else Health.WARN
    if unusable and len(unusable) == total:
        level = Health.ERROR
    values = {draft.name: f'{draft.state.name} {draft.reason}'.strip()
              for draft in residency.drafts}
    return Check(name='drafts', level=level, message='; '.join(problems) or
                 f'{total} drafts, active: {residency.active_draft or "none"}',
                 values={'cache_capacity': residency.cache_capacity, **values})


def check_acceptance(throughput: Throughput) -> Check:
    """WARN when drafts are proposed and hardly one of their tokens is accepted."""
    drafting = throughput.draft_length > 0 and throughput.tokens_per_second > 0
    collapsed = drafting and throughput.acceptance < LOW_ACCEPTANCE
    message = (f'collapsed: {throughput.acceptance:.2f} of the drafted tokens are accepted'
               if collapsed else f'{throughput.tokens_per_second:.1f} tokens/s')
    return Check(name='speculation', level=Health.WARN if collapsed else Health.OK,
                 message=message, values={
                     'tokens_per_second': round(throughput.tokens_per_second, 2),
                     'acceptance': round(throughput.acceptance, 3),
                     'draft_length': round(throughput.draft_length, 2),
                     'hit_rate': round(throughput.hit_rate, 3)})


def check_memory(throughput: Throughput, headroom_mb: float,
                 memory: MemoryState | None = None) -> Check:
    """OK above the headroom, WARN below it, ERROR below a quarter: the kernel may kill soon.

    :param memory: what the watch has read; its figure counts, where there is one.
    """
    available = memory.available_bytes if memory else throughput.available_bytes
    available_mb = available / MEGABYTE
    known = f'{available_mb:.0f} MB' if available or memory else 'unknown'
    message = f'available: {known}, headroom: {headroom_mb:.0f} MB'
    level = Health.OK
    if (available or memory) and available_mb < headroom_mb:
        level = Health.ERROR if available_mb < headroom_mb / 4 else Health.WARN
    return Check(name='memory', level=level, message=message, values={
        'rss_mb': round(throughput.rss_bytes / MEGABYTE),
        'available_mb': round(available_mb), 'headroom_mb': round(headroom_mb),
        'stalled_percent': memory.stalled_percent if memory else 'unknown'})


def check_temperatures(celsius: Mapping[str, float], settings: MachineSettings) -> list[Check]:
    """OK, WARN or ERROR by the hottest zone; nothing where the machine shows none."""
    if not celsius:
        return []
    hottest = max(celsius, key=lambda zone: celsius[zone])
    level = Health.OK
    if celsius[hottest] >= settings.warn_celsius:
        level = Health.ERROR if celsius[hottest] >= settings.error_celsius else Health.WARN
    return [Check(name='temperature', level=level, message=f'{hottest}: {celsius[hottest]:.1f} C',
                  values=celsius)]
