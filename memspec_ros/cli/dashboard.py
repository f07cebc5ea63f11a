# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What ``memspec monitor`` shows: a node's state as lines of text."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from memspec_ros.records import DraftState, DraftStatus, Health, Residency, Throughput

if TYPE_CHECKING:
    from memspec_ros.client.topic_feed import Sight
    from memspec_ros.node.health import Check

BARS = '▁▂▃▄▅▆▇█'
STATE_LETTERS = {DraftState.ACTIVE: '█', DraftState.RESIDENT: '▒', DraftState.LOADING: '↑',
                 DraftState.ABSENT: '·', DraftState.UNAVAILABLE: '!'}
LEGEND = 'active █  resident ▒  loading ↑  absent ·  unavailable !'
MAX_HISTORY = 500
MEGABYTE = 1_000_000
LABEL_WIDTH = 22
COLOURS = {Health.OK: '\x1b[32m', Health.WARN: '\x1b[33m', Health.ERROR: '\x1b[31m'}
END = '\x1b[0m'


class Dashboard:
    """Keeps what was told, and draws it.

    :param watched: name of the node.
    :param colours: whether to use ANSI colours.
    """

    def __init__(self, watched: str, *, colours: bool = False) -> None:
        self._watched = watched
        self._colours = colours
        self._last_throughput: Throughput | None = None
        self._figures: dict[str, deque[float]] = {}
        self._timeline: dict[str, deque[str]] = {}

    def add(self, sight: Sight) -> None:
        """Take what was told; the histories grow with each message of throughput."""
        if sight.throughput is None or sight.throughput is self._last_throughput:
            return
        self._last_throughput = sight.throughput
        for name, value in (('tokens/s', sight.throughput.tokens_per_second),
                            ('acceptance', sight.throughput.acceptance),
                            ('queue', float(sight.queue_length))):
            self._figures.setdefault(name, deque(maxlen=MAX_HISTORY)).append(value)
        for draft in sight.residency.drafts if sight.residency else ():
            self._timeline.setdefault(draft.name, deque(maxlen=MAX_HISTORY)).append(
                STATE_LETTERS[draft.state])

    def lines(self, sight: Sight, width: int) -> list[str]:
        """Return the picture, no line wider than ``width`` characters."""
        drawn = [f'{self._watched}: {sight.state or "waiting for news"}', '']
        if sight.throughput is not None:
            drawn += self._throughput(sight.throughput, sight.queue_length, width)
        if sight.residency is not None:
            drawn += self._residency(sight.residency, width)
        return [line[:width] for line in drawn] + [
            self._check(check, width) for check in sight.checks]

    def _throughput(self, throughput: Throughput, queue_length: int,
                    width: int) -> Iterator[str]:
        yield self._figure('tokens/s', f'{throughput.tokens_per_second:.1f}', width)
        yield self._figure('acceptance', f'{throughput.acceptance:.2f}', width, top=1.0)
        yield self._figure('queue', f'{queue_length}', width)
        yield (f'{throughput.committed_per_iteration:.2f} tokens per iteration, '
               f'{throughput.draft_length:.1f} drafted; '
               f'{throughput.num_loads} loads, {throughput.num_evictions} evictions, '
               f'{throughput.num_wasted_prefetches} wasted; hit rate {throughput.hit_rate:.2f}')
        shares = throughput.shares
        yield 'decode time: ' + ', '.join(f'{name} {100 * share:.0f} %' for name, share in (
            ('desired', shares.desired), ('fallback', shares.fallback),
            ('prediction', shares.prediction), ('load wait', shares.load_wait)))
        yield (f'memory: {throughput.rss_bytes / MEGABYTE:.0f} MB held, '
               f'{throughput.available_bytes / MEGABYTE:.0f} MB available')
        yield ''

    def _figure(self, name: str, value: str, width: int, top: float = 0.0) -> str:
        label = f'{name:<12}{value:>8}  '
        history = list(self._figures.get(name, ()))[-max(0, width - len(label)):]
        return label + sparkline(history, top)

    def _residency(self, residency: Residency, width: int) -> Iterator[str]:
        yield (f'drafts: K {residency.cache_capacity}, '
               f'{residency.resident_bytes / MEGABYTE:.1f} MB resident; {LEGEND}')
        for draft in residency.drafts:
            label = _draft_label(draft)
            room = max(0, width - len(label))
            yield label + ''.join(list(self._timeline.get(draft.name, ()))[-room or MAX_HISTORY:])
            if draft.reason:
                yield f'    {draft.reason}'
        yield ''

    def _check(self, check: Check, width: int) -> str:
        level = f'{check.level.name:<6}'
        line = f'{check.name}: {check.message}'.replace('\n', ' ')[:max(0, width - len(level))]
        return f'{COLOURS[check.level]}{level}{END}{line}' if self._colours else level + line


def _draft_label(draft: DraftStatus) -> str:
    wanted = '*' if draft.in_working_set else ' '
    return f'{wanted}{draft.name[:LABEL_WIDTH]:<{LABEL_WIDTH}}{draft.score:>6.2f}  '


def sparkline(values: Sequence[float], top: float = 0.0) -> str:
    """Return one character per value, as high as it is of ``top`` (0: of the largest)."""
    highest = top or max(values, default=0.0)
    if highest <= 0.0:
        return BARS[0] * len(values)
    return ''.join(BARS[min(len(BARS) - 1, int(max(0.0, value) / highest * len(BARS)))]
                   for value in values)


def missing(sight: Sight) -> Mapping[str, bool]:
    """Return what a picture of the node still lacks, by topic; an inactive one tells less."""
    is_active = sight.state in ('', 'active')
    return {'/diagnostics': not sight.checks,
            '~/throughput': is_active and sight.throughput is None,
            '~/draft_residency': is_active and sight.residency is None}
