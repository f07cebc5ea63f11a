# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The cost model: how long the parts of an iteration take, and what draft length pays.

Throughput of an iteration is E[committed] / L_iter (equation 1). Both sides are kept current from
what iterations report; given the same observations the model answers the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from memspec_ros.boundaries import IterationOutcome
from memspec_ros.records import ADAPTIVE_DRAFT_LENGTH
from memspec_ros.runtime.acceptance import AcceptanceEstimate
from memspec_ros.runtime.plan import NGRAM_DRAFT, PLAIN_DRAFT

SMOOTHING = 0.02
SLOWDOWN_SMOOTHING = 0.3
DRAFT_STEP_SHARE = 0.15


class Average:
    """A mean that moves fast at first and is exponentially weighted in the end.

    A value counts as at most twice and at least half the mean: one pass that another process
    held up must not turn the choice of draft lengths.
    """

    __slots__ = ('_num_values', 'value')

    def __init__(self) -> None:
        self._num_values = 0
        self.value: float | None = None

    def add(self, value: float) -> None:
        """Move towards a new value."""
        self._num_values += 1
        mean = self.value
        if mean is None:
            self.value = value
        else:
            weight = max(SMOOTHING, 1.0 / (self._num_values + 2))
            self.value = mean + weight * (min(max(value, mean / 2), 2 * mean) - mean)


class CostModel:
    """Seconds of target passes by width, draft steps, catch-ups and loads; draft lengths.

    When the machine slows down or recovers, all passes and steps do. So what is kept of each is
    relative to a common slowdown, which follows fast: the width that happens to run in a slow
    moment does not look slower than the others.

    :param max_draft_length: largest draft length it may choose.
    """

    def __init__(self, *, max_draft_length: int) -> None:
        self.max_draft_length = max_draft_length
        self._iteration = 0
        self._last_draft = ''
        self._slowdown = 1.0
        self._target_s: dict[int, Average] = {}
        self._width_s: list[float] = []
        self._overhead_s = Average()
        self._draft_step_s: dict[str, Average] = {}
        self._catch_up_s: dict[str, Average] = {}
        self._load_s: dict[str, Average] = {}
        self.forget_acceptance()

    def start_goal(self) -> None:
        """Note that the drafts have seen nothing of what comes."""
        self._last_draft = ''

    def measure_target(self, width: int, seconds: float) -> None:
        """Note the time of one target pass over ``width`` positions."""
        average = self._target_s.setdefault(width, Average())
        if average.value:
            ratio = seconds / (average.value * self._slowdown)
            self._slowdown *= 1.0 + SLOWDOWN_SMOOTHING * (min(max(ratio, 0.5), 2.0) - 1.0)
        average.add(seconds / self._slowdown)
        self._width_s = []

    def measure_draft_step(self, draft: str, seconds: float) -> None:
        """Note the time in which a draft proposes one token."""
        self._draft_step_s.setdefault(draft, Average()).add(seconds / self._slowdown)

    def measure_catch_up(self, draft: str, seconds: float) -> None:
        """Note the time in which a draft that was not active catches up."""
        self._catch_up_s.setdefault(draft, Average()).add(seconds / self._slowdown)

    def measure_load(self, draft: str, seconds: float) -> None:
        """Note the time of a load."""
        self._load_s.setdefault(draft, Average()).add(seconds)

    def observe(self, outcome: IterationOutcome, draft_length: int) -> None:
        """Learn times and acceptance from an iteration asked to draft ``draft_length`` tokens."""
        self._iteration += 1
        self.measure_target(outcome.num_drafted + 1, outcome.target_s)
        self._overhead_s.add(max(0.0, outcome.total_s - outcome.target_s - outcome.draft_s)
                             / self._slowdown)
        if outcome.num_drafted:
            self._observe_drafting(outcome)
        if outcome.draft != PLAIN_DRAFT:
            self.acceptance(outcome.draft).observe(outcome, draft_length)
            if outcome.draft != NGRAM_DRAFT:
                self._of_pool.fade_to(self._iteration)
                self._of_pool.observe(outcome, draft_length)

    def _observe_drafting(self, outcome: IterationOutcome) -> None:
        """Tell steps from the catch-up that comes with the first ones after a switch.

        The first draft of a goal reads the prompt then, which no choice can avoid; taken for its
        steps' time, it would keep a draft from ever drafting again.
        """
        if outcome.draft == self._last_draft:
            self.measure_draft_step(outcome.draft, outcome.draft_s / outcome.num_drafted)
        elif self._last_draft:
            steps_s = outcome.num_drafted * self.draft_step_s(outcome.draft)
            self.measure_catch_up(outcome.draft, max(0.0, outcome.draft_s - steps_s))
        self._last_draft = outcome.draft

    def acceptance(self, draft: str) -> AcceptanceEstimate:
        """Return the acceptance estimate of a draft, faded to now; policies may feed it too."""
        estimate = self._acceptance.get(draft)
        if estimate is None:
            shared = None if draft == NGRAM_DRAFT else self._of_pool
            estimate = AcceptanceEstimate(self.max_draft_length, shared)
            self._acceptance[draft] = estimate
        estimate.fade_to(self._iteration)
        return estimate

    def forget_acceptance(self) -> None:
        """Drop what was learnt about acceptance; times stay (the reset before each prompt)."""
        self._acceptance: dict[str, AcceptanceEstimate] = {}
        self._of_pool = AcceptanceEstimate(self.max_draft_length)

    def target_s(self, width: int) -> float:
        """Seconds of a target pass; between measured widths linear, beyond them the nearest."""
        if not self._width_s:
            points = sorted((at, average.value or 0.0) for at, average in self._target_s.items())
            self._width_s = [_interpolate(points, at) for at in range(self.max_draft_length + 2)]
        return self._slowdown * self._width_s[min(width, self.max_draft_length + 1)]

    def draft_step_s(self, draft: str) -> float:
        """Seconds of one draft step; a share of a target pass where it was never measured."""
        average = self._draft_step_s.get(draft)
        if average is None or average.value is None:
            return DRAFT_STEP_SHARE * self.target_s(1)
        return self._slowdown * average.value

    def catch_up_s(self, draft: str) -> float:
        """Seconds of a catch-up; two draft steps where it was never measured."""
        average = self._catch_up_s.get(draft)
        if average is None or average.value is None:
            return 2 * self.draft_step_s(draft)
        return self._slowdown * average.value

    def load_s(self, draft: str) -> float:
        """Seconds of a load; 0 where none was measured."""
        average = self._load_s.get(draft)
        return 0.0 if average is None else average.value or 0.0

    def iteration_s(self, draft: str, draft_length: int) -> float:
        """Seconds of an iteration in which a draft proposes ``draft_length`` tokens."""
        drafting_s = draft_length * self.draft_step_s(draft) if draft_length else 0.0
        return drafting_s + self.target_s(draft_length + 1) + self._overhead()

    def _overhead(self) -> float:
        return self._slowdown * (self._overhead_s.value or 0.0)

    def pace(self, draft: str, draft_length: int = ADAPTIVE_DRAFT_LENGTH) -> tuple[float, float]:
        """Return expected committed tokens and seconds of an iteration (equation 1's E[A], L).

        A draft may propose nothing (the n-gram draft often does); such an iteration costs and
        commits what a plain one does.

        :param draft_length: -1 takes the one that pays best.
        """
        if draft_length == ADAPTIVE_DRAFT_LENGTH:
            return self._best(draft)[1:]
        if draft_length == 0 or draft == PLAIN_DRAFT:
            return 1.0, self.iteration_s(PLAIN_DRAFT, 0)
        return self._paces(draft, draft_length)[draft_length]

    def draft_length(self, draft: str) -> int:
        """Return the draft length with the most expected tokens per second, 0 included."""
        return self._best(draft)[0]

    def _best(self, draft: str) -> tuple[int, float, float]:
        paces = self._paces(draft, 0 if draft == PLAIN_DRAFT else self.max_draft_length)
        rates = [committed / seconds if seconds > 0 else 0.0 for committed, seconds in paces]
        best = rates.index(max(rates))
        return (best, *paces[best])

    def _paces(self, draft: str, max_draft_length: int) -> list[tuple[float, float]]:
        """Expected committed tokens and seconds by draft length, 0 to ``max_draft_length``."""
        plain_s = self.iteration_s(PLAIN_DRAFT, 0)
        if max_draft_length == 0:
            return [(1.0, plain_s)]
        estimate, step_s = self.acceptance(draft), self.draft_step_s(draft)
        proposing, accepted = estimate.proposing, estimate.expected_accepted(max_draft_length)
        fixed_s = (1.0 - proposing) * plain_s + proposing * self._overhead()
        passes_s = [self._slowdown * seconds for seconds in self._width_s]
        return [(1.0, plain_s)] + [
            (1.0 + proposing * accepted[length],
             fixed_s + proposing * (length * step_s + passes_s[length + 1]))
            for length in range(1, max_draft_length + 1)]


def _interpolate(points: Sequence[tuple[int, float]], at: int) -> float:
    if not points:
        return 0.0
    if at <= points[0][0]:
        return points[0][1]
    for (low, low_s), (high, high_s) in itertools.pairwise(points):
        if low <= at <= high:
            return low_s + (high_s - low_s) * (at - low) / (high - low)
    return points[-1][1]
