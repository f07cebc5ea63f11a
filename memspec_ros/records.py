# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Values that cross layers: what a client asks for, what it is told, and what topics show.

All are frozen and keyword-only. Requests are checked when made, so a layer below never meets a
temperature of NaN. The node converts them to and from messages in one place, node/conversions.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from memspec_ros.errors import ErrorCode, RequestError

ADAPTIVE_DRAFT_LENGTH = -1
MAX_DRAFT_LENGTH = 15
ROLES = ('system', 'user', 'assistant', 'tool')


class FinishReason(IntEnum):
    """Why a goal ended, by the numbers of ``Generate.action``."""

    STOP = 1
    LENGTH = 2
    CANCELED = 3
    TIMEOUT = 4
    CONTEXT = 5
    ERROR = 6


class GoalState(IntEnum):
    """Where a goal is, by the numbers of ``Generate.action``."""

    QUEUED = 1
    PREFILL = 2
    DECODE = 3


class DraftState(IntEnum):
    """Residency of one draft, by the numbers of ``DraftStatus.msg``."""

    ABSENT = 0
    LOADING = 1
    RESIDENT = 2
    ACTIVE = 3
    UNAVAILABLE = 4


def _refuse(message: str) -> None:
    raise RequestError(ErrorCode.INVALID_GOAL, message)


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not math.isfinite(value) or not low <= value <= high:
        _refuse(f'{name} is {value}; it must be a number in [{low}, {high}]')


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """How the next token is chosen from the target's logits.

    ``temperature`` 0 is greedy. ``top_k`` 0 and ``top_p`` 1, ``min_p`` 0, ``repetition_penalty``
    1 switch the respective filter off. ``seed`` None draws a fresh one, reported in the result.

    :raises RequestError: INVALID_GOAL, naming the option, its value and range.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        _check_range('temperature', self.temperature, 0.0, 100.0)
        _check_range('top_p', self.top_p, 0.0, 1.0)
        _check_range('top_k', self.top_k, 0, 2**31 - 1)
        _check_range('min_p', self.min_p, 0.0, 1.0)
        _check_range('repetition_penalty', self.repetition_penalty, 0.01, 100.0)
        if self.seed is not None:
            _check_range('seed', self.seed, 0, 2**64 - 1)

    @property
    def is_greedy(self) -> bool:
        """Whether the most probable token is taken."""
        return self.temperature == 0.0 or self.top_k == 1


@dataclass(frozen=True, kw_only=True)
class ChatMessage:
    """One turn of a chat.

    :raises RequestError: INVALID_GOAL when the role is unknown.
    """

    role: str
    content: str

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            _refuse(f"message role is '{self.role}'; it must be one of {', '.join(ROLES)}")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One goal: exactly one of ``prompt`` and ``messages``, and how to answer it.

    ``prompt`` is one user turn under the model's chat template, or, with ``raw_prompt``, the
    literal text. ``max_tokens`` 0 means what the node's default says. ``timeout_s`` covers queue
    and generation, 0 is none. ``draft_length`` is the number of tokens drafted per iteration,
    0 plain decoding, -1 chosen by the cost model. ``draft_hint`` names the draft to start with.

    :raises RequestError: INVALID_GOAL or UNSUPPORTED, naming the field, its value and limit.
    """

    prompt: str = ''
    messages: tuple[ChatMessage, ...] = ()
    raw_prompt: bool = False
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    max_tokens: int = 0
    stop: tuple[str, ...] = ()
    timeout_s: float = 0.0
    priority: int = 0
    response_schema: str = ''
    draft_hint: str = ''
    draft_length: int = ADAPTIVE_DRAFT_LENGTH

    def __post_init__(self) -> None:
        if not self.prompt and not self.messages:
            _refuse('the goal is empty: give a prompt or messages')
        if self.prompt and self.messages:
            _refuse(f'the goal has both a prompt ({len(self.prompt)} characters) and '
                    f'{len(self.messages)} messages: give exactly one')
        if any(not text for text in self.stop):
            _refuse(f'stop string {self.stop.index("")} of {len(self.stop)} is empty')
        _check_range('max_tokens', self.max_tokens, 0, 2**31 - 1)
        _check_range('timeout_s', self.timeout_s, 0.0, 1e9)
        _check_range('draft_length', self.draft_length, ADAPTIVE_DRAFT_LENGTH, MAX_DRAFT_LENGTH)
        if self.response_schema:
            raise RequestError(ErrorCode.UNSUPPORTED,
                               'response_schema is not supported by this version: leave it empty')


@dataclass(frozen=True, kw_only=True)
class Durations:
    """Seconds a goal spent in each part; ``total_s`` from acceptance to the end."""

    queue_s: float = 0.0
    prefill_s: float = 0.0
    first_token_s: float = 0.0
    decode_s: float = 0.0
    total_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a goal ended. ``decode_s`` and ``tokens_per_second`` leave prompt processing out.

    ``completion_tokens`` counts the tokens emitted (the end token is not one of them);
    ``drafted`` and ``accepted`` count draft tokens proposed and committed. ``seed_used`` is 0
    when greedy.
    """

    text: str = ''
    finish_reason: FinishReason = FinishReason.ERROR
    error_code: ErrorCode = ErrorCode.NONE
    error_msg: str = ''
    prompt_tokens: int = 0
    reused_tokens: int = 0
    completion_tokens: int = 0
    iterations: int = 0
    drafted: int = 0
    accepted: int = 0
    drafts_used: tuple[str, ...] = ()
    seed_used: int = 0
    durations: Durations = field(default_factory=Durations)
    token_ids: tuple[int, ...] = ()

    @property
    def tokens_per_second(self) -> float:
        """Output tokens per second of decoding; 0 when nothing was decoded.

        Prefill leaves the last prompt token to the first iteration, so all output is decoded.
        """
        seconds = self.durations.decode_s
        return self.completion_tokens / seconds if seconds > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a goal has to say after an iteration: the text it added, and where it stands."""

    state: GoalState
    delta_text: str = ''
    completion_tokens: int = 0
    active_draft: str = ''
    acceptance: float = 0.0


@dataclass(frozen=True, kw_only=True)
class DraftStatus:
    """Residency of one draft: bytes in the slot, the ranking's score, and why it is so."""

    name: str
    domain: str
    state: DraftState
    num_bytes: int
    score: float = 0.0
    in_working_set: bool = False
    reason: str = ''


@dataclass(frozen=True, kw_only=True)
class Residency:
    """All drafts of the pool, with K and the bytes that the resident ones hold.

    ``capacity_reason`` says why K is less than what was asked for.
    """

    drafts: tuple[DraftStatus, ...] = ()
    cache_capacity: int = 0
    capacity_reason: str = ''
    resident_bytes: int = 0
    budget_bytes: int = 0
    active_draft: str = ''


@dataclass(frozen=True, kw_only=True)
class TimeShares:
    """Shares of decode time (PAPER.md); they sum to 1 while anything was decoded."""

    desired: float = 0.0
    fallback: float = 0.0
    prediction: float = 0.0
    load_wait: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Running figures for ``~/throughput``; rates over the last second of decoding."""

    tokens_per_second: float = 0.0
    committed_per_iteration: float = 0.0
    acceptance: float = 0.0
    draft_length: float = 0.0
    shares: TimeShares = field(default_factory=TimeShares)
    num_loads: int = 0
    num_evictions: int = 0
    num_wasted_prefetches: int = 0
    hit_rate: float = 0.0
    rss_bytes: int = 0
    available_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class RuntimeInfo:
    """What a runtime has opened; ``memory`` is the budget's sum, item by item, in bytes."""

    target_model: str = ''
    architecture: str = ''
    dtype: str = ''
    device: str = ''
    vocab_size: int = 0
    context_tokens: int = 0
    has_chat_template: bool = False
    policy: str = ''
    scheduling_interval: int = 0
    drafts: tuple[str, ...] = ()
    memory: tuple[tuple[str, int], ...] = ()
    memory_sum_bytes: int = 0
    memory_available_bytes: int = 0


class Health(Enum):
    """Levels of REP 107 diagnostics."""

    OK = 'ok'
    WARN = 'warn'
    ERROR = 'error'
