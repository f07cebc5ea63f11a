# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Drafts that could not be loaded: why, and when each is tried again."""

from __future__ import annotations

from dataclasses import dataclass

from memspec_ros.boundaries import Clock

FIRST_RETRY_S = 1.0
LAST_RETRY_S = 60.0


@dataclass(frozen=True, kw_only=True)
class LoadFailure:
    """A draft's last failure; ``is_out`` until its retry is due."""

    reason: str
    delay_s: float
    retry_at_s: float
    is_out: bool = True


class LoadFailures:
    """Exponential back-off per draft: 1 s after the first failure, doubling up to 60 s."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, LoadFailure] = {}

    def is_out(self, draft: str) -> bool:
        """Whether a draft is unavailable now."""
        failure = self._failures.get(draft)
        return failure is not None and failure.is_out

    def reason(self, draft: str) -> str:
        """Why a draft's last load failed; empty when it did not."""
        failure = self._failures.get(draft)
        return failure.reason if failure else ''

    def add(self, draft: str, reason: str) -> None:
        """Note a failure: the draft is unavailable, for twice as long as after the last one."""
        before = self._failures.get(draft)
        delay_s = min(2 * before.delay_s, LAST_RETRY_S) if before else FIRST_RETRY_S
        self._failures[draft] = LoadFailure(reason=reason, delay_s=delay_s,
                                            retry_at_s=self._clock() + delay_s)

    def forget(self, draft: str) -> None:
        """Note that a draft was loaded after all."""
        self._failures.pop(draft, None)

    def retry_due(self) -> bool:
        """Make drafts whose retry is due available again; tell whether there was one."""
        now_s = self._clock() if self._failures else 0.0
        due = [(draft, failure) for draft, failure in self._failures.items()
               if failure.is_out and now_s >= failure.retry_at_s]
        for draft, failure in due:
            self._failures[draft] = LoadFailure(reason=failure.reason, delay_s=failure.delay_s,
                                                retry_at_s=failure.retry_at_s, is_out=False)
        return bool(due)
