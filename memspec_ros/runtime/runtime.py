# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The runtime that the node, the command line and the benchmarks serve goals with."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from memspec_ros.config import Settings
from memspec_ros.decoding.generation import Generation
from memspec_ros.decoding.iteration import ModelExecutor
from memspec_ros.decoding.prefill import Prefill
from memspec_ros.decoding.text_stream import TextStream
from memspec_ros.decoding.token_choice import TokenChoice
from memspec_ros.errors import ErrorCode, RequestError, did_you_mean
from memspec_ros.records import (
    ChatMessage,
    Durations,
    FinishReason,
    GoalState,
    Progress,
    Request,
    Residency,
    Result,
    RuntimeInfo,
    Throughput,
)
from memspec_ros.runtime.assembly import Assembly, assemble
from memspec_ros.runtime.loader import is_out_of_memory
from memspec_ros.runtime.memory import available_bytes, rss_bytes
from memspec_ros.runtime.metrics import RATE_WINDOW_S, GoalMetrics

OnProgress = Callable[[Progress], None]
SNAPSHOT_INTERVAL_S = 0.05
STOP_CODES = {FinishReason.CANCELED: ErrorCode.CANCELED, FinishReason.TIMEOUT: ErrorCode.TIMEOUT}
ShouldStop = Callable[[], 'FinishReason | None']


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


@dataclass(kw_only=True)
class _Run:
    """One goal on its way: what the result will tell."""

    generation: Generation
    seed: int
    started_s: float
    reused: int = 0
    prefilled_s: float = 0.0
    first_token_s: float = 0.0
    counts: GoalMetrics = field(default_factory=GoalMetrics)


class MemSpecRuntime:
    """Opens models and serves one goal at a time.

    :meth:`generate` belongs to one thread, the decode thread; every other method may be called
    from any thread.
    """

    def __init__(self, assembly: Assembly, settings: Settings) -> None:
        self._parts = assembly
        self._settings = settings
        self._prefill = Prefill(assembly.target, settings.target.prefill_chunk_tokens)
        self._reset_wanted = False
        self._observed_s = 0.0
        self._residency = assembly.draft_cache.residency()
        self._throughput = Throughput()

    @classmethod
    def open(cls, settings: Settings, *,
             report: Callable[[str], None] = lambda _: None) -> MemSpecRuntime:
        """Load the target, check the budget and allocate the slots.

        :param report: told of each load stage with its sizes, before it begins.
        :raises ConfigError, ModelError, BudgetError: what is wrong, which file, and the limit.
        """
        return cls(assemble(settings, report), settings)

    def info(self) -> RuntimeInfo:
        """Return what was opened."""
        return self._parts.info

    def residency(self) -> Residency:
        """Return where the drafts were at the last scheduling point or load."""
        return self._residency

    def throughput(self) -> Throughput:
        """Return the running figures as of a moment ago, and memory as of now.

        Rates are of the last second of decoding, so they are 0 when that is past.
        """
        recent = self._throughput
        if time.perf_counter() > self._observed_s + RATE_WINDOW_S:
            recent = dataclasses.replace(recent, tokens_per_second=0.0, acceptance=0.0,
                                         committed_per_iteration=0.0, draft_length=0.0)
        return dataclasses.replace(recent, rss_bytes=rss_bytes(),
                                   available_bytes=available_bytes())

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a literal text takes."""
        return len(self._parts.tokenizer.encode(text))

    def prepare(self, request: Request) -> PreparedRequest:
        """Tokenise a request and check it against the context and the pool.

        :raises RequestError: CONTEXT_EXCEEDED, UNKNOWN_DRAFT or INVALID_GOAL, with the numbers.
        """
        self._check_hint(request.draft_hint)
        prompt_ids = self._encode(request)
        room = self._parts.target.context_tokens - len(prompt_ids)
        if room < 1:
            raise RequestError(
                ErrorCode.CONTEXT_EXCEEDED,
                f'the prompt has {len(prompt_ids)} tokens; the context of '
                f'{self._parts.target.context_tokens} must hold prompt and answer')
        if request.max_tokens > room:
            raise RequestError(
                ErrorCode.CONTEXT_EXCEEDED,
                f'max_tokens is {request.max_tokens}; with a prompt of {len(prompt_ids)} tokens '
                f'the context of {self._parts.target.context_tokens} leaves {room}')
        wanted = request.max_tokens or self._settings.server.default_max_tokens
        return PreparedRequest(
            request=request, prompt_ids=prompt_ids, max_tokens=min(wanted, room),
            limit_reason=FinishReason.CONTEXT if wanted > room else FinishReason.LENGTH)

    def generate(self, prepared: PreparedRequest, *,
                 on_progress: OnProgress = lambda _: None,
                 should_stop: ShouldStop = lambda: None) -> Result:
        """Answer a request; whatever happens there is a result.

        :param on_progress: told after each prefill chunk and iteration; the texts it is given
            join to the result's text.
        :param should_stop: asked before each prefill chunk and iteration; CANCELED or TIMEOUT
            ends the goal there, with what it has so far.
        """
        self._reset_if_wanted()
        run = self._start(prepared)
        try:
            reason = self._run(run, prepared, on_progress, should_stop)
            error = _stopped(reason, run.generation.num_output)
        except Exception as failure:  # the node must go on serving, whatever a goal met
            # The KV cache may hold rejected proposals now: nothing of it is reused.
            self._prefill.forget()
            reason, error = FinishReason.ERROR, _described(failure)
        else:
            self._prefill.hold(run.generation.tokens)
        self._observe()
        return self._finish(run, reason, error, on_progress)

    def apply(self, settings: Settings) -> None:
        """Change the dynamic settings; taken over at the next scheduling point.

        :raises BudgetError, ConfigError: they cannot be met; all stays as it was.
        """
        self._parts.controller.apply(settings.runtime)
        self._settings = settings
        self._parts.loader.set_bandwidth(settings.draft.load_bandwidth_mb_s)

    def reset(self) -> None:
        """Forget drafts, statistics and the prompt in the KV cache, before the next goal."""
        self._reset_wanted = True

    def close(self) -> None:
        """Stop the loader; the memory goes with the object."""
        self._parts.loader.shutdown()

    def _encode(self, request: Request) -> tuple[int, ...]:
        tokenizer = self._parts.tokenizer
        if request.raw_prompt and request.prompt:
            ids = tokenizer.encode_raw(request.prompt)
        else:
            turns = request.messages or (ChatMessage(role='user', content=request.prompt),)
            ids = tokenizer.encode_chat(turns)
        if not ids:
            raise RequestError(ErrorCode.INVALID_GOAL, 'the prompt has no tokens')
        return tuple(ids)

    def _check_hint(self, hint: str) -> None:
        names = self._parts.draft_names
        if hint and hint not in names:
            raise RequestError(
                ErrorCode.UNKNOWN_DRAFT,
                f"draft_hint is '{hint}'; the drafts are {', '.join(names) or 'none'}"
                f'{did_you_mean(hint, names)}')

    def _start(self, prepared: PreparedRequest) -> _Run:
        sampling = prepared.request.sampling
        seed = 0 if sampling.is_greedy else sampling.seed
        text = TextStream(self._parts.tokenizer.token_bytes, prepared.request.stop)
        generation = Generation(target=self._parts.target, prompt=prepared.prompt_ids, text=text,
                                max_tokens=prepared.max_tokens,
                                limit_reason=prepared.limit_reason)
        return _Run(generation=generation, started_s=time.perf_counter(),
                    seed=secrets.randbits(64) if seed is None else seed)

    def _run(self, run: _Run, prepared: PreparedRequest, on_progress: OnProgress,
             should_stop: ShouldStop) -> FinishReason:
        for stop_reason in self._steps(run, prepared, on_progress):
            if stop_reason is not None:
                return stop_reason
            if (asked := should_stop()) is not None:
                return asked
        raise AssertionError('a goal ended without a reason')

    def _steps(self, run: _Run, prepared: PreparedRequest,
               on_progress: OnProgress) -> Iterator[FinishReason | None]:
        """Prefill chunks, then iterations; yields before each, and the reason after the last."""
        generation, request = run.generation, prepared.request
        run.reused = self._prefill.begin(prepared.prompt_ids)
        on_progress(Progress(state=GoalState.PREFILL))
        yield None
        for _ in self._prefill.run(prepared.prompt_ids):
            yield None
        run.prefilled_s = time.perf_counter()
        executor = ModelExecutor(
            target=self._parts.target, drafts=self._parts.drafts, generation=generation,
            choice=TokenChoice(request.sampling, run.seed), clock=time.perf_counter)
        for outcome in self._parts.controller.decode(
                generation, executor, draft_hint=request.draft_hint,
                draft_length=request.draft_length):
            run.first_token_s = run.first_token_s or time.perf_counter()
            run.counts = self._parts.controller.metrics.goal
            self._observe()
            on_progress(self._progress(run, outcome.draft, generation.text.take()))
            yield outcome.finished

    def _progress(self, run: _Run, draft: str, delta_text: str) -> Progress:
        return Progress(state=GoalState.DECODE, delta_text=delta_text, active_draft=draft,
                        completion_tokens=run.generation.num_output,
                        acceptance=run.counts.acceptance)

    def _finish(self, run: _Run, reason: FinishReason, error: tuple[ErrorCode, str],
                on_progress: OnProgress) -> Result:
        ended_s = time.perf_counter()
        generation, counts = run.generation, run.counts
        drafts_used = tuple(counts.drafts_used)
        if rest := generation.text.finish():
            on_progress(self._progress(run, drafts_used[-1] if drafts_used else '', rest))
        prefilled_s = run.prefilled_s or ended_s
        return Result(
            text=generation.text.text, finish_reason=reason, error_code=error[0],
            error_msg=error[1], prompt_tokens=generation.prompt_length,
            reused_tokens=run.reused, completion_tokens=len(generation.output),
            token_ids=tuple(generation.output), iterations=counts.num_iterations,
            drafted=counts.num_drafted, accepted=counts.num_accepted, drafts_used=drafts_used,
            seed_used=run.seed, durations=Durations(
                prefill_s=prefilled_s - run.started_s,
                first_token_s=(run.first_token_s or ended_s) - run.started_s,
                decode_s=ended_s - prefilled_s, total_s=ended_s - run.started_s))

    def _observe(self) -> None:
        """Take snapshots for other threads, no oftener than a topic could show them."""
        now_s = time.perf_counter()
        if now_s < self._observed_s + SNAPSHOT_INTERVAL_S:
            return
        self._observed_s = now_s
        self._residency = self._parts.draft_cache.residency()
        self._throughput = self._parts.controller.metrics.throughput()

    def _reset_if_wanted(self) -> None:
        if self._reset_wanted:
            self._reset_wanted = False
            self._prefill.forget()
            self._parts.controller.reset()


def _stopped(reason: FinishReason, num_output: int) -> tuple[ErrorCode, str]:
    code = STOP_CODES.get(reason, ErrorCode.NONE)
    return code, f'{reason.name.lower()} after {num_output} tokens' if code else ''


def _described(failure: Exception) -> tuple[ErrorCode, str]:
    if isinstance(failure, RequestError):
        return failure.code, str(failure)
    code = ErrorCode.OUT_OF_MEMORY if is_out_of_memory(failure) else ErrorCode.INTERNAL
    return code, f'{type(failure).__name__}: {failure}'
