# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One goal on its way: what it has so far, and what its result will tell."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

from memspec_ros.decoding.generation import Generation
from memspec_ros.decoding.token_choice import TokenChoice
from memspec_ros.errors import ErrorCode
from memspec_ros.records import Durations, FinishReason, GoalState, Progress, Request, Result
from memspec_ros.runtime.metrics import GoalMetrics, sum_of


@dataclass(frozen=True, kw_only=True)
class PreparedRequest:
    """A request that can be served: its tokens, and the limits that follow from the context."""

    request: Request
    prompt_ids: tuple[int, ...]
    max_tokens: int
    limit_reason: FinishReason

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt, those of the chat template included."""
        return len(self.prompt_ids)

    def make_seed(self) -> int:
        """Return the seed of its sampling: 0 when greedy, a fresh one when none was given."""
        sampling = self.request.sampling
        seed = 0 if sampling.is_greedy else sampling.seed
        return secrets.randbits(64) if seed is None else seed


@dataclass(kw_only=True)
class GoalRun:
    """A goal's tokens, counts and times, over all the turns that it takes.

    A goal that is interrupted has more than one turn. What a token is depends on the distribution,
    the seed and its position alone, so a turn begins where the last one ended and nothing of it
    shows in the answer.
    """

    prepared: PreparedRequest
    generation: Generation
    seed: int
    started_s: float
    reused: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    first_token_s: float = 0.0
    counts: GoalMetrics = field(default_factory=GoalMetrics)
    num_turns: int = 0
    _before: GoalMetrics = field(default_factory=GoalMetrics)
    _turn_s: float = 0.0
    _prefilled_s: float = 0.0
    _ended_s: float = 0.0

    @property
    def choice(self) -> TokenChoice:
        """How its tokens are chosen."""
        return TokenChoice(self.prepared.request.sampling, self.seed)

    @property
    def draft_hint(self) -> str:
        """The draft to start with; a later turn goes on with what was learnt."""
        return self.prepared.request.draft_hint if self.num_turns == 1 else ''

    def begin_turn(self) -> None:
        """Note that the goal has the models now."""
        self.num_turns += 1
        self._before = self.counts
        self._turn_s = self.started_s if self.num_turns == 1 else time.perf_counter()
        self._prefilled_s = 0.0

    def end_prefill(self) -> None:
        """Note that all tokens so far are in the target's KV cache."""
        self._prefilled_s = time.perf_counter()

    def count(self, counts: GoalMetrics) -> None:
        """Take the counts of this turn as they are after an iteration."""
        self.first_token_s = self.first_token_s or time.perf_counter() - self.started_s
        self.counts = counts if self.num_turns == 1 else sum_of((self._before, counts))

    def end_turn(self) -> None:
        """Note that another goal may have the models now."""
        self._ended_s = ended_s = time.perf_counter()
        prefilled_s = self._prefilled_s or ended_s
        self.prefill_s += prefilled_s - self._turn_s
        self.decode_s += ended_s - prefilled_s

    def progress(self, draft: str, delta_text: str) -> Progress:
        """Return where it stands while it decodes."""
        return Progress(state=GoalState.DECODE, delta_text=delta_text, active_draft=draft,
                        completion_tokens=self.generation.num_output,
                        acceptance=self.counts.acceptance)

    def result(self, reason: FinishReason, code: ErrorCode, message: str) -> Result:
        """Return how it ended, after its last turn; ``generation.text`` must be finished."""
        generation, counts = self.generation, self.counts
        total_s = self._ended_s - self.started_s
        return Result(
            text=generation.text.text, finish_reason=reason, error_code=code, error_msg=message,
            prompt_tokens=generation.prompt_length, reused_tokens=self.reused,
            completion_tokens=len(generation.output), token_ids=tuple(generation.output),
            iterations=counts.num_iterations, drafted=counts.num_drafted,
            accepted=counts.num_accepted, drafts_used=tuple(counts.drafts_used),
            seed_used=self.seed, durations=Durations(
                prefill_s=self.prefill_s, decode_s=self.decode_s, total_s=total_s,
                first_token_s=self.first_token_s or total_s))


class InterruptedGoal:
    """A goal that gave up its turn between two iterations; it is resumed, or ended as it is.

    Belongs to the decode thread, or to whoever has taken it out of the queue.
    """

    def __init__(self, run: GoalRun) -> None:
        self.run = run

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return self.run.prepared.prompt_tokens

    def end(self, reason: FinishReason, code: ErrorCode, message: str) -> Result:
        """End it without another turn, with the text that it has."""
        self.run.generation.text.finish()
        return self.run.result(reason, code, message)
