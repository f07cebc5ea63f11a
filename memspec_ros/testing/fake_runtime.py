# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A runtime without models, behind the boundary of memspec_ros/node/backend.py."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from memspec_ros.config import Settings
from memspec_ros.errors import BudgetError, ErrorCode, ModelNotFoundError, RequestError
from memspec_ros.records import (
    DraftState,
    DraftStatus,
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

DRAFTS = ('alpha', 'beta')
DRAFT_BYTES = 1_000_000
MISSING_MODEL = 'fake:missing'
TOKENS_PER_ITERATION = 2


@dataclass(frozen=True, kw_only=True)
class FakePrepared:
    """A request whose tokens are its words."""

    request: Request
    prompt_tokens: int
    max_tokens: int


@dataclass(kw_only=True)
class FakeScript:
    """How a fake runtime behaves.

    :param load_s: how long open takes.
    :param prefill_s: seconds per prompt word, and ``iteration_s`` per iteration.
    :param before_iteration: called in each iteration, with its number; may wait or raise.
    """

    load_s: float = 0.0
    prefill_s: float = 0.0
    iteration_s: float = 0.0
    before_iteration: Callable[[int], None] = lambda _: None
    answer: Callable[[int], str] = lambda number: f'w{number} '
    opened: list[FakeRuntime] = field(default_factory=list)

    def open(self, settings: Settings, *, report: Callable[[str], None]) -> FakeRuntime:
        """Open a fake runtime; ``target.model`` 'fake:missing' fails as a missing file does.

        :raises ModelNotFoundError: naming the file.
        """
        report(f'loading target {settings.target.model} (12.3 MB)')
        time.sleep(self.load_s)
        if settings.target.model == MISSING_MODEL:
            raise ModelNotFoundError(f'target.model is {MISSING_MODEL}: there is no such file; '
                                     'get it with: memspec fetch')
        self.opened.append(FakeRuntime(self, settings))
        return self.opened[-1]


class FakeInterrupted:
    """A goal that gave up its turn after ``words``."""

    def __init__(self, prepared: FakePrepared, words: list[str], done: int) -> None:
        self.prepared = prepared
        self.words = words
        self.done = done

    @property
    def prompt_tokens(self) -> int:
        """Words of the prompt."""
        return self.prepared.prompt_tokens

    def end(self, reason: FinishReason, code: ErrorCode, message: str) -> Result:
        """Return the result of a goal that is not resumed."""
        return Result(text=''.join(self.words), finish_reason=reason, error_code=code,
                      error_msg=message, prompt_tokens=self.prompt_tokens,
                      completion_tokens=self.done)


class FakeRuntime:
    """Answers every request with ``w0 w1 w2 ...`` and notes what was done to it."""

    def __init__(self, script: FakeScript, settings: Settings) -> None:
        self._script = script
        self.settings = settings
        self.num_goals = 0
        self.num_iterations = 0
        self.num_resets = 0
        self._limit: tuple[int | None, str] = (None, '')
        self.limit: int | None = None
        self.limit_reason = ''
        self.closed = False
        self.decode_threads: set[str] = set()

    def prepare(self, request: Request) -> FakePrepared:
        """Count words.

        :raises RequestError: CONTEXT_EXCEEDED or UNKNOWN_DRAFT.
        """
        words = ' '.join([request.prompt, *(turn.content for turn in request.messages)]).split()
        context = self.settings.target.context_tokens
        max_tokens = request.max_tokens or self.settings.server.default_max_tokens
        if len(words) + request.max_tokens > context:
            raise RequestError(ErrorCode.CONTEXT_EXCEEDED,
                               f'prompt of {len(words)} tokens and max_tokens '
                               f'{request.max_tokens} exceed the context of {context}')
        if request.draft_hint and request.draft_hint not in DRAFTS:
            raise RequestError(ErrorCode.UNKNOWN_DRAFT, f"draft_hint is '{request.draft_hint}'; "
                               f'it must be one of {", ".join(DRAFTS)}')
        return FakePrepared(request=request, prompt_tokens=len(words), max_tokens=max_tokens)

    def generate(self, prepared: FakePrepared, *, on_progress: Callable[[Progress], None],
                 should_stop: Callable[[], FinishReason | None]) -> Result:
        """Answer a request; a prompt that begins with ``raise`` raises after three iterations."""
        result = self.advance(prepared, on_progress=on_progress, should_stop=should_stop,
                              should_yield=lambda: False)
        assert isinstance(result, Result)
        return result

    def advance(self, work: FakePrepared | FakeInterrupted, *,
                on_progress: Callable[[Progress], None],
                should_stop: Callable[[], FinishReason | None],
                should_yield: Callable[[], bool]) -> Result | FakeInterrupted:
        """Answer a request, or go on with an interrupted goal."""
        started_s = time.monotonic()
        if isinstance(work, FakePrepared):
            self.num_goals += 1
            work = FakeInterrupted(work, [], 0)
        self.decode_threads.add(threading.current_thread().name)
        on_progress(Progress(state=GoalState.PREFILL, completion_tokens=work.done))
        reason = self._prefill(work.prepared, should_stop)
        prefilled_s = first_s = time.monotonic()
        for progress in () if reason else self._decode(work):
            work.words.append(progress.delta_text)
            first_s = time.monotonic() if len(work.words) == 1 else first_s
            on_progress(progress)
            if reason := should_stop():
                break
            if work.done < work.prepared.max_tokens and should_yield():
                return work
        ended_s = time.monotonic()
        return self._result(work, reason or FinishReason.LENGTH, Durations(
            prefill_s=prefilled_s - started_s, decode_s=ended_s - prefilled_s,
            first_token_s=first_s - started_s, total_s=ended_s - started_s))

    def _result(self, work: FakeInterrupted, reason: FinishReason,
                durations: Durations) -> Result:
        num_iterations = len(work.words)
        return Result(
            text=''.join(work.words), finish_reason=reason,
            prompt_tokens=work.prompt_tokens, completion_tokens=work.done,
            iterations=num_iterations, drafted=num_iterations, accepted=num_iterations // 2,
            drafts_used=('alpha',), seed_used=7, durations=durations)

    def _prefill(self, prepared: FakePrepared,
                 should_stop: Callable[[], FinishReason | None]) -> FinishReason | None:
        for _ in range(prepared.prompt_tokens):
            time.sleep(self._script.prefill_s)
            if reason := should_stop():
                return reason
        return None

    def _decode(self, work: FakeInterrupted) -> Iterator[Progress]:
        prepared = work.prepared
        while work.done < prepared.max_tokens:
            number = work.done // TOKENS_PER_ITERATION
            self._script.before_iteration(number)
            if number == 3 and prepared.request.prompt.startswith('raise'):
                raise RuntimeError(prepared.request.prompt)
            time.sleep(self._script.iteration_s)
            self.num_iterations += 1
            count = min(TOKENS_PER_ITERATION, prepared.max_tokens - work.done)
            text = ''.join(self._script.answer(work.done + offset) for offset in range(count))
            work.done += count
            yield Progress(state=GoalState.DECODE, delta_text=text, completion_tokens=work.done,
                           active_draft='alpha', acceptance=0.5)

    def count_tokens(self, text: str) -> int:
        """Words of a text."""
        return len(text.split())

    def info(self) -> RuntimeInfo:
        """A small model."""
        return RuntimeInfo(
            target_model=self.settings.target.model, architecture='fake', dtype='int4',
            device='cpu', vocab_size=100, context_tokens=self.settings.target.context_tokens,
            has_chat_template=True, policy=self.settings.runtime.policy,
            scheduling_interval=self.settings.runtime.scheduling_interval, drafts=DRAFTS,
            memory=(('target weights', 12_300_000), ('draft slots', 2 * DRAFT_BYTES)),
            memory_sum_bytes=12_300_000 + 2 * DRAFT_BYTES, memory_available_bytes=10**9)

    def residency(self) -> Residency:
        """Alpha drafts; beta is loaded once anything was decoded."""
        beta = DraftState.RESIDENT if self.num_iterations else DraftState.LOADING
        drafts = (
            DraftStatus(name='alpha', domain='general', state=DraftState.ACTIVE,
                        num_bytes=DRAFT_BYTES, score=0.75, in_working_set=True),
            DraftStatus(name='beta', domain='code', state=beta, num_bytes=DRAFT_BYTES,
                        score=self.num_iterations / 1e6, in_working_set=True, reason='prefetched'))
        capacity = self.settings.runtime.cache_capacity
        return Residency(drafts=drafts, cache_capacity=min(capacity, self.limit or capacity),
                         capacity_reason=self.limit_reason,
                         resident_bytes=2 * DRAFT_BYTES, active_draft='alpha')

    def throughput(self) -> Throughput:
        """Figures that differ from field to field."""
        return Throughput(tokens_per_second=50.0, committed_per_iteration=2.0, acceptance=0.5,
                          draft_length=3.0, num_loads=1, rss_bytes=10**8, available_bytes=10**9)

    def apply(self, settings: Settings) -> None:
        """Take over settings.

        :raises BudgetError: more drafts than slots.
        """
        if settings.runtime.cache_capacity > len(DRAFTS):
            raise BudgetError(f'runtime.cache_capacity is {settings.runtime.cache_capacity}; '
                              f'there are {len(DRAFTS)} slots')
        self.settings = dataclasses.replace(settings)

    def limit_capacity(self, capacity: int | None, reason: str) -> None:
        """Take a bound on K."""
        self._limit = capacity, reason

    def relieve(self) -> None:
        """Have the bound show."""
        self.limit, self.limit_reason = self._limit

    def reset(self) -> None:
        """Note that it was asked for."""
        self.num_resets += 1

    def close(self) -> None:
        """Note that it was asked for."""
        self.closed = True
