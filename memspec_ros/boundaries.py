# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The boundaries at which parts meet, and at which memspec_ros/testing puts its fakes.

A token's way crosses four of them: the :class:`Target` and the :class:`Draft` (what models do),
the :class:`IterationExecutor` (one draft-and-verify iteration: models, or a look-up in an
acceptance table) and the :class:`DraftLoader` (a thread, or a virtual clock).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from memspec_ros.records import FinishReason


class Target(Protocol):
    """The large model, with the one KV cache it owns (batch 1).

    The KV cache holds entries of the first ``length`` tokens; rollback moves that cursor and
    touches no memory.
    """

    vocab_size: int
    context_tokens: int
    end_ids: frozenset[int]
    length: int

    def extend(self, token_ids: Sequence[int], num_logits: int) -> torch.Tensor:
        """Append tokens to the KV cache and return the logits after the last ``num_logits``.

        :param token_ids: at least one; ``length + len(token_ids)`` must not pass
            ``context_tokens``.
        :param num_logits: 0 (none, for prefill) to ``len(token_ids)``.
        :returns: [num_logits, vocab_size], float32 or bfloat16; valid until the next call.
        :raises ModelError: the context would overflow.
        """

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` entries; ``0 <= length <= self.length``."""

    def hidden_states(self, start: int, stop: int) -> torch.Tensor:
        """Last hidden states (after the final norm) of positions ``start`` to ``stop - 1``.

        Kept in a ring of recent positions, ``first_hidden`` being the oldest.

        :returns: [stop - start, hidden_size]; a view, valid until the next ``extend``.
        """

    @property
    def first_hidden(self) -> int:
        """The oldest position whose hidden state the ring still has."""


class TokenContext(Protocol):
    """What a draft may look at: the tokens so far and the target's states of them."""

    @property
    def tokens(self) -> Sequence[int]:
        """Prompt and committed output; the last one is not in the target's KV cache yet."""

    @property
    def prompt_length(self) -> int:
        """How many of ``tokens`` are the prompt."""

    @property
    def target(self) -> Target:
        """For ``hidden_states`` only; a draft never extends the target."""


class Draft(Protocol):
    """One kind of draft: independent model, feature-conditioned, or n-gram (batch 1).

    A draft keeps the cursor of what it has seen. Before it proposes it catches up: it rolls back
    to the longest prefix it shares with the context and feeds what is missing, so it may be
    switched in at any position, and after full acceptance it is fed both missing tokens.
    What it proposes depends on the tokens alone, never on when it was switched in.
    """

    name: str

    def reset(self) -> None:
        """Forget all tokens (a new goal, or other weights in the slot)."""

    def catch_up(self, context: TokenContext) -> Sequence[bool]:
        """Feed what is missing and tell which of the fed tokens it would have proposed.

        :returns: one flag per committed position after the last one judged, oldest first
            (``flags[-1]`` is about ``tokens[-1]``); empty when it cannot tell.
        """

    def propose(self, context: TokenContext, num_tokens: int) -> Sequence[int]:
        """Propose up to ``num_tokens`` (at least 1) tokens that follow ``context.tokens``.

        Catches up first. Fewer are returned when it has nothing to say or proposes an end token
        (a draft's end token only ends drafting).
        """


@dataclass(frozen=True, kw_only=True)
class IterationOutcome:
    """What one draft-and-verify iteration did.

    ``num_committed`` counts tokens that became output (after the cut at end token, stop string
    or limit), ``num_accepted`` those of them that the draft proposed.
    """

    draft: str
    num_drafted: int
    num_accepted: int
    num_committed: int
    draft_s: float = 0.0
    target_s: float = 0.0
    total_s: float = 0.0
    finished: FinishReason | None = None


class IterationExecutor(Protocol):
    """Executes iterations of one goal: with models, or from an acceptance table."""

    def iterate(self, draft: str, draft_length: int) -> IterationOutcome:
        """Run one iteration with a resident draft; ``draft_length`` 0 is plain decoding."""


@dataclass(frozen=True, kw_only=True)
class LoadEvent:
    """A load that ended: ``error`` is empty when the draft is now in its slot.

    ``out_of_memory`` marks an error after which fewer drafts are to be kept.
    """

    draft: str
    slot: int
    seconds: float
    error: str = ''
    cancelled: bool = False
    out_of_memory: bool = False


class DraftLoader(Protocol):
    """Brings drafts into slots in the background."""

    def start(self, draft: str, slot: int) -> None:
        """Begin to load a draft into a free slot; returns at once."""

    def cancel(self, draft: str) -> None:
        """Abandon a load; an event with ``cancelled`` follows, and only then is the slot free."""

    def poll(self) -> Sequence[LoadEvent]:
        """Loads that ended since the last call, in that order; never waits."""

    def wait(self) -> LoadEvent:
        """Block until one load ends (the first draft, and the blocking strategies).

        :raises LoadError: nothing is in flight, or the load stands still.
        """


class Clock(Protocol):
    """Monotonic seconds: ``time.perf_counter``, or a virtual clock in replay."""

    def __call__(self) -> float:
        """Seconds since an arbitrary start."""
