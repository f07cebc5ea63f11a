# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a draft has had accepted lately, by the depth of the proposal."""

from __future__ import annotations

from collections.abc import Sequence

from memspec_ros.boundaries import IterationOutcome

PRIOR_RATE = 0.6
PRIOR_WEIGHT = 2.0
SHARED_WEIGHT = 50.0
DEPTH_WEIGHT = 4.0
KEEP = 0.98
LOWEST, HIGHEST = 0.02, 0.98


class AcceptanceEstimate:
    """Conditional acceptance rates a_j: the j-th proposal is right given the earlier ones are.

    Evidence fades by ``KEEP`` per iteration and the estimate returns to its prior, so a draft
    that has lost its turn is tried again after a while. Deeper rates lean on shallower ones
    until they have evidence of their own.

    :param max_depth: deepest proposal that is told apart.
    :param shared: the estimate of all drafts of the pool together. Text that is hard for one of
        them is hard for the others, so their rates are its rates, shifted at the first proposal
        by ``tilt``, until there is much evidence of their own. Without that, a draft that has not
        run yet looks better in hard text than the one that runs, each in its turn.

    ``prior``: without ``shared``, the rate to start from and to return to.
    """

    __slots__ = ('_accepted', '_judged', '_known_from', '_known_rates', '_now', '_offered',
                 '_proposed', '_shared', 'prior', 'prior_proposing', 'tilt')

    def __init__(self, max_depth: int, shared: AcceptanceEstimate | None = None) -> None:
        self._shared = shared
        self.tilt = 0.0
        self.prior = PRIOR_RATE
        self.prior_proposing = 1.0
        self._now = 0
        self._judged = [0.0] * max_depth
        self._accepted = [0.0] * max_depth
        self._offered = self._proposed = 0.0
        self._known_from: tuple[float, ...] = ()    # the evidence that _known_rates follow from
        self._known_rates: list[float] = []

    def observe(self, outcome: IterationOutcome, draft_length: int) -> None:
        """Learn from an iteration in which this draft was asked for ``draft_length`` tokens.

        Proposals up to the first wrong one count; what an end of output cut off does not.
        """
        num_judged = outcome.num_accepted
        if num_judged < outcome.num_drafted and outcome.finished is None:
            num_judged += 1
        for depth in range(min(num_judged, len(self._judged))):
            self._judged[depth] += 1.0
            self._accepted[depth] += depth < outcome.num_accepted
        if draft_length and outcome.finished is None:
            self._offered += 1.0
            self._proposed += outcome.num_drafted > 0

    def observe_flags(self, flags: Sequence[bool]) -> None:
        """Learn from a catch-up: each flag is a first proposal that was right or wrong."""
        self._judged[0] += len(flags)
        self._accepted[0] += sum(flags)

    def fade_to(self, iteration: int) -> None:
        """Let the evidence fade by the iterations that passed since the last call."""
        if iteration == self._now:
            return
        keep = KEEP ** (iteration - self._now)
        self._now = iteration
        self._judged = [keep * value for value in self._judged]
        self._accepted = [keep * value for value in self._accepted]
        self._offered *= keep
        self._proposed *= keep

    @property
    def rate(self) -> float:
        """a_1: how often the first proposal is right."""
        if self._shared is None:
            return self._rate(0, self.prior, PRIOR_WEIGHT)
        shared = min(max(self._shared.rate + self.tilt, LOWEST), HIGHEST)
        return self._rate(0, shared, SHARED_WEIGHT)

    @property
    def proposing(self) -> float:
        """How often the draft proposes anything when asked."""
        return (self._proposed + self.prior_proposing) / (self._offered + 1.0)

    def expected_accepted(self, max_draft_length: int) -> list[float]:
        """Expected accepted tokens by draft length: [0 to ``max_draft_length``]."""
        expected, reached = [0.0], 1.0
        for rate in self._rates(max_draft_length):
            reached *= rate
            expected.append(expected[-1] + reached)
        return expected

    def _rates(self, count: int) -> list[float]:
        """a_1 to a_count; shared ones are worked out once for all who lean on them."""
        if self._shared is not None:
            return self._lean_on(self._shared._rates(count))
        evidence = (self.prior, *self._judged, *self._accepted)
        if len(self._known_rates) < count or self._known_from != evidence:
            rates = [self.rate]
            for depth in range(1, count):
                rates.append(self._rate(depth, rates[-1], DEPTH_WEIGHT))
            self._known_from, self._known_rates = evidence, rates
        return self._known_rates[:count]

    def _lean_on(self, shared: Sequence[float]) -> list[float]:
        deeper = (self._rate(depth, shared[depth], DEPTH_WEIGHT)
                  for depth in range(1, len(shared)))
        return [self.rate, *deeper][:len(shared)]

    def _rate(self, depth: int, prior: float, weight: float) -> float:
        if depth >= len(self._judged):
            return prior
        return (self._accepted[depth] + weight * prior) / (self._judged[depth] + weight)
