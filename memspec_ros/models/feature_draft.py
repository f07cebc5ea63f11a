# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The feature-conditioned draft (EAGLE's kind) as it runs beside its target, batch 1."""

from __future__ import annotations

from collections.abc import Sequence

from memspec_ros.boundaries import TokenContext
from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.models.feature_slots import MAX_SLOTS, FeatureSlots, LookedUp
from memspec_ros.models.suffix_lookup import SuffixLookup


class FeatureDraft:
    """A feature-conditioned draft as a :class:`~memspec_ros.boundaries.Draft`.

    What it proposes depends on the tokens and the target's states of the last ``window``
    positions only: each slot's entry is made from the target's states as soon as there are
    some, in place of the draft's own guess.

    :param slots: computes; this class knows which slots, and what was proposed.
    """

    def __init__(self, name: str, config: FeatureConfig, slots: FeatureSlots) -> None:
        self.name = name
        self._config = config
        self._slots = slots
        self._stop = 1  # the next slot to feed
        self.reset()

    def reset(self) -> None:
        """Forget all tokens."""
        self._tokens: list[int] = []
        self._lookup = SuffixLookup()
        self._looked_up: list[LookedUp] = []
        self._restart(1)
        self._prediction: int | None = None
        self._flags: list[bool] = []

    def catch_up(self, context: TokenContext) -> Sequence[bool]:
        """Feed what is missing; flags of committed positions, as the boundary says."""
        self._feed(context)
        flags, self._flags = self._flags, []
        return flags

    def propose(self, context: TokenContext, num_tokens: int) -> Sequence[int]:
        """Propose up to ``num_tokens``; fewer when an end token of the target would follow."""
        self._feed(context)
        token = self._prediction
        if token is None:
            return []
        proposed: list[int] = []
        while token not in context.target.end_ids:
            proposed.append(token)
            if len(proposed) == num_tokens:
                break
            self._lookup.append(token)
            token = self._slots.step(token, self._lookup.look_up())
        self._lookup.rollback(len(self._tokens))
        self._slots.rewind()
        return proposed

    def _feed(self, context: TokenContext) -> None:
        """Bring the entries up to the context, and predict what follows its last tokens."""
        tokens = list(context.tokens)
        shared = self._rewind(tokens)
        if shared == len(tokens):
            return
        for token in tokens[shared:]:
            self._lookup.append(token)
            self._looked_up.append(self._lookup.look_up())
        self._tokens = tokens
        # A slot's key needs the slot before; one more is fed where there is a gap.
        first = max(self._stop, len(tokens) - self._config.window - MAX_SLOTS,
                    context.target.first_hidden + 1, 1)
        if first > self._stop:
            self._restart(first)
        while len(tokens) - self._stop > MAX_SLOTS:
            self._feed_slots(context, self._stop + MAX_SLOTS, 0)
        if self._stop < len(tokens):
            self._judge(context, shared)

    def _judge(self, context: TokenContext, shared: int) -> None:
        """Feed the last slots, and tell which of the new tokens they predict."""
        tokens, stop = self._tokens, len(self._tokens)
        # Slot p predicts token p + 1; the one before the new tokens did so last time.
        if self._prediction is not None and context.prompt_length <= shared:
            self._flags.append(self._prediction == tokens[shared])
        first = min(max(self._stop, shared, context.prompt_length - 1), stop - 1)
        predicted = self._feed_slots(context, stop, stop - first)
        self._flags += [guess == token for guess, token in
                        zip(predicted, tokens[first + 1:], strict=False)]
        self._prediction = predicted[-1]

    def _feed_slots(self, context: TokenContext, stop: int, num_predicted: int) -> list[int]:
        first, self._stop = self._stop, stop
        return self._slots.feed(
            self._tokens[first:stop], self._looked_up[first:stop],
            context.target.hidden_states(first - 1, stop - 1), num_predicted)

    def _restart(self, slot: int) -> None:
        """Hold no slots; the next is ``slot``."""
        self._slots.restart()
        self._stop = slot

    def _rewind(self, tokens: list[int]) -> int:
        """Forget all unless it is a prefix of ``tokens``; returns how many are shared.

        Entries of a part cannot be continued, since the slot before is kept for the last only.
        """
        if tokens[:len(self._tokens)] != self._tokens:
            self.reset()
        return len(self._tokens)
