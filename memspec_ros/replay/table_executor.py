# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One draft-and-verify iteration as a look-up in the acceptance table."""

from __future__ import annotations

from collections.abc import Sequence

from memspec_ros.boundaries import IterationOutcome
from memspec_ros.records import FinishReason
from memspec_ros.replay.goal_table import TableContext
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.replay.virtual_loader import VirtualLoader


class TableExecutor:
    """Executes iterations of one replayed goal, as ``ModelExecutor`` would have."""

    def __init__(self, context: TableContext, *, profile: DeviceProfile, clock: VirtualClock,
                 loader: VirtualLoader) -> None:
        self._context = context
        self._table = context.table
        self._profile = profile
        self._clock = clock
        self._loader = loader
        self._caught_up: dict[str, int] = {}
        self._last_draft = ''

    def iterate(self, draft: str, draft_length: int) -> IterationOutcome:
        """Look up what the draft gets accepted, move on, let the time pass."""
        table, position = self._table, self._context.position
        num_left = table.num_tokens - position
        num_drafted = table.num_drafted(draft, draft_length, position)
        num_accepted = min(table.runs[draft][position], num_drafted) \
            if num_drafted and num_left else 0
        num_committed = min(num_accepted + 1, num_left)
        draft_s, target_s, total_s = self._take_time(draft, num_drafted, position)
        self._context.position = position + num_committed
        return IterationOutcome(
            draft=draft, num_drafted=num_drafted, num_accepted=num_accepted,
            num_committed=num_committed, draft_s=draft_s, target_s=target_s, total_s=total_s,
            finished=self._finished(num_accepted + 1 > num_left))

    def catch_up(self, draft: str) -> Sequence[bool]:
        """Judge a resident draft's first proposals since it last caught up."""
        position = self._context.position
        self._clock.advance(self._profile.missed_s(draft, self._num_missed(draft, position)))
        start = self._caught_up.get(draft, 0)
        self._caught_up[draft] = position
        return [run > 0 for run in self._table.runs[draft][start:position]]

    def _num_missed(self, draft: str, position: int) -> int:
        """Return how many tokens a draft has not seen: those of the prompt too at first."""
        return position - self._caught_up.get(draft, -self._context.prompt_length)

    def _take_time(self, draft: str, num_drafted: int,
                   position: int) -> tuple[float, float, float]:
        """Let an iteration's time pass; return draft, target and total seconds."""
        profile = self._profile
        slowdown = profile.load_slowdown if self._loader.is_loading else 1.0
        target_s = slowdown * profile.target_s[num_drafted + 1]
        draft_s = slowdown * num_drafted * profile.step_s(draft) if num_drafted else 0.0
        if num_drafted and draft != self._last_draft:
            draft_s += profile.missed_s(draft, self._num_missed(draft, position))
        self._last_draft = draft if num_drafted else ''
        if num_drafted:
            self._caught_up[draft] = position
        total_s = draft_s + target_s + slowdown * profile.overhead_s
        self._clock.advance(total_s)
        return draft_s, target_s, total_s

    def _finished(self, met_end: bool) -> FinishReason | None:
        if met_end:
            return FinishReason.STOP
        return FinishReason.LENGTH if self._context.position == self._table.max_tokens else None
