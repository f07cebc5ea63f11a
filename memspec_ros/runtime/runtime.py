# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The runtime that the node, the command line and the benchmarks serve goals with."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator

from memspec_ros.config import Settings
from memspec_ros.decoding.generation import Generation
from memspec_ros.decoding.iteration import ModelExecutor
from memspec_ros.decoding.prefill import Prefill
from memspec_ros.decoding.text_stream import TextStream
from memspec_ros.errors import ErrorCode, RequestError, did_you_mean
from memspec_ros.prediction.beside import PredictorBeside
from memspec_ros.records import (
    ChatMessage,
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
from memspec_ros.runtime.goal_run import GoalRun, InterruptedGoal, PreparedRequest
from memspec_ros.runtime.loader import is_out_of_memory
from memspec_ros.runtime.memory import available_bytes, rss_bytes
from memspec_ros.runtime.metrics import RATE_WINDOW_S

__all__ = ['MemSpecRuntime', 'PreparedRequest']

OnProgress = Callable[[Progress], None]
SNAPSHOT_INTERVAL_S = 0.05
STOP_CODES = {FinishReason.CANCELED: ErrorCode.CANCELED, FinishReason.TIMEOUT: ErrorCode.TIMEOUT}
ShouldStop = Callable[[], 'FinishReason | None']
ShouldYield = Callable[[], bool]


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
        self._limit: tuple[int | None, str] = (None, '')
        self._limit_taken: tuple[int | None, str] = self._limit
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
        result = self.advance(prepared, on_progress=on_progress, should_stop=should_stop)
        assert isinstance(result, Result)
        return result

    def advance(self, work: PreparedRequest | InterruptedGoal, *,
                on_progress: OnProgress = lambda _: None, should_stop: ShouldStop = lambda: None,
                should_yield: ShouldYield = lambda: False) -> Result | InterruptedGoal:
        """Begin a request or go on with an interrupted goal, to its end or its interruption.

        :param should_yield: asked after ``should_stop``; when it says yes the goal is interrupted
            there, and this returns what goes on with it: another call with that in the place of
            the request. Between the two calls other goals may be served.

        The rest is as in :meth:`generate`.
        """
        self._reset_if_wanted()
        run = work.run if isinstance(work, InterruptedGoal) else self._start(work)
        run.begin_turn()
        try:
            reason = self._run(run, on_progress, should_stop, should_yield)
            error = _stopped(reason, run.generation.num_output)
        except Exception as failure:  # the node must go on serving, whatever a goal met
            # The KV cache may hold rejected proposals now: nothing of it is reused.
            self._prefill.forget()
            reason, error = FinishReason.ERROR, _described(failure)
        else:
            self._prefill.hold(run.generation.tokens)
        self._observe()
        run.end_turn()
        return InterruptedGoal(run) if reason is None else \
            self._finish(run, reason, error, on_progress)

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

    def limit_capacity(self, capacity: int | None, reason: str) -> None:
        """Bound K because memory is short; between the next two passes, or by :meth:`relieve`.

        :param capacity: None lifts the bound.
        :param reason: what residency and diagnostics say of it.
        """
        self._limit = capacity, reason

    def relieve(self) -> None:
        """Evict now what the bound on K leaves no room for; decode thread only."""
        if self._limit is not self._limit_taken:
            self._limit_taken = self._limit
            self._parts.draft_cache.poll()
            self._parts.draft_cache.limit_capacity(*self._limit_taken)
            self._residency = self._parts.draft_cache.residency()

    def close(self) -> None:
        """Stop loader and predictor; the memory goes with the object."""
        self._parts.loader.shutdown()
        if isinstance(self._parts.predictor, PredictorBeside):
            self._parts.predictor.close()

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

    def _start(self, prepared: PreparedRequest) -> GoalRun:
        text = TextStream(self._parts.tokenizer.token_bytes, prepared.request.stop)
        generation = Generation(target=self._parts.target, prompt=prepared.prompt_ids, text=text,
                                max_tokens=prepared.max_tokens,
                                limit_reason=prepared.limit_reason)
        return GoalRun(prepared=prepared, generation=generation, seed=prepared.make_seed(),
                       started_s=time.perf_counter())

    def _run(self, run: GoalRun, on_progress: OnProgress, should_stop: ShouldStop,
             should_yield: ShouldYield) -> FinishReason | None:
        """Return why the goal ended; None when it was interrupted."""
        for stop_reason in self._steps(run, on_progress):
            if stop_reason is not None:
                return stop_reason
            self.relieve()
            if (asked := should_stop()) is not None:
                return asked
            if should_yield():
                return None
        raise AssertionError('a goal ended without a reason')

    def _steps(self, run: GoalRun, on_progress: OnProgress) -> Iterator[FinishReason | None]:
        """Prefill chunks, then iterations; yields before each, and the reason after the last.

        In a later turn the tokens that the goal has are put back into the KV cache, but for those
        that are still there.
        """
        generation, controller = run.generation, self._parts.controller
        tokens = tuple(generation.tokens)
        num_reused = self._prefill.begin(tokens)
        run.reused = num_reused if run.num_turns == 1 else run.reused
        on_progress(Progress(state=GoalState.PREFILL, completion_tokens=generation.num_output))
        yield None
        for _ in self._prefill.run(tokens):
            yield None
        run.end_prefill()
        executor = ModelExecutor(
            target=self._parts.target, drafts=self._parts.drafts, generation=generation,
            choice=run.choice, clock=time.perf_counter)
        for outcome in controller.decode(
                generation, executor, draft_hint=run.draft_hint,
                draft_length=run.prepared.request.draft_length):
            run.count(controller.metrics.goal)
            self._observe()
            on_progress(run.progress(outcome.draft, generation.text.take()))
            yield outcome.finished

    def _finish(self, run: GoalRun, reason: FinishReason, error: tuple[ErrorCode, str],
                on_progress: OnProgress) -> Result:
        drafts_used = tuple(run.counts.drafts_used)
        if rest := run.generation.text.finish():
            on_progress(run.progress(drafts_used[-1] if drafts_used else '', rest))
        return run.result(reason, *error)

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


def _stopped(reason: FinishReason | None, num_output: int) -> tuple[ErrorCode, str]:
    code = STOP_CODES.get(reason, ErrorCode.NONE) if reason else ErrorCode.NONE
    return code, f'{reason.name.lower()} after {num_output} tokens' if reason and code else ''


def _described(failure: Exception) -> tuple[ErrorCode, str]:
    if isinstance(failure, RequestError):
        return failure.code, str(failure)
    code = ErrorCode.OUT_OF_MEMORY if is_out_of_memory(failure) else ErrorCode.INTERNAL
    return code, f'{type(failure).__name__}: {failure}'
