# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One draft-and-verify iteration with real models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memspec_ros.boundaries import Clock, Draft, IterationOutcome, Target
from memspec_ros.decoding.generation import Generation
from memspec_ros.decoding.token_choice import TokenChoice


class ModelExecutor:
    """Executes iterations of one goal with the models.

    The invariant between iterations: the target's KV cache holds all tokens but the last.

    :param drafts: the resident drafts by name; may change between iterations.
    """

    def __init__(self, *, target: Target, drafts: Mapping[str, Draft], generation: Generation,
                 choice: TokenChoice, clock: Clock) -> None:
        self._target = target
        self._drafts = drafts
        self._generation = generation
        self._choice = choice
        self._clock = clock

    def iterate(self, draft: str, draft_length: int) -> IterationOutcome:
        """Draft, verify in one pass, commit, roll back (Leviathan et al. 2023, algorithm 1).

        :param draft: name of a resident draft.
        :param draft_length: tokens to draft; 0 is plain decoding. Near the end of the answer
            fewer are drafted, since the target adds one of its own.
        """
        tokens = self._generation.tokens
        started = self._clock()
        proposals = self._propose(draft, min(draft_length, self._generation.num_left - 1))
        drafted = self._clock()
        # logits [len(proposals) + 1, vocab]: what follows the last token and each proposal
        logits = self._target.extend([tokens[-1], *proposals], len(proposals) + 1)
        chosen = self._choice.choose(logits, tokens, proposals)
        verified = self._clock()
        num_committed = self._generation.commit(chosen)
        self._target.rollback(len(tokens) - 1)
        return IterationOutcome(
            draft=draft, num_drafted=len(proposals),
            num_accepted=min(num_committed, len(chosen) - 1), num_committed=num_committed,
            draft_s=drafted - started, target_s=verified - drafted,
            total_s=self._clock() - started, finished=self._generation.finish_reason)

    def catch_up(self, draft: str) -> Sequence[bool]:
        """Bring a resident draft that did not run up to date; see :meth:`Draft.catch_up`."""
        return self._drafts[draft].catch_up(self._generation)

    def _propose(self, draft: str, num_tokens: int) -> Sequence[int]:
        if num_tokens <= 0:
            return ()
        return self._drafts[draft].propose(self._generation, num_tokens)
