# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Between messages and our values: the one file that knows the fields of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from builtin_interfaces.msg import Duration
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

import memspec_ros.msg as messages
from memspec_ros.action import Generate
from memspec_ros.errors import ErrorCode, RequestError
from memspec_ros.node.health import Check
from memspec_ros.records import (
    ChatMessage,
    DraftState,
    DraftStatus,
    Durations,
    FinishReason,
    GoalState,
    Health,
    Progress,
    Request,
    Residency,
    Result,
    RuntimeInfo,
    SamplingOptions,
    Throughput,
    TimeShares,
)

LEVELS = {Health.OK: DiagnosticStatus.OK, Health.WARN: DiagnosticStatus.WARN,
          Health.ERROR: DiagnosticStatus.ERROR}
NANOSECONDS = 1_000_000_000


def clean(text: str) -> str:
    """Return text that a ROS string can hold: UTF-8, and no NUL, which would end it."""
    return text.replace('\0', '\N{REPLACEMENT CHARACTER}').encode(
        'utf-8', 'replace').decode('utf-8')


def seconds(span: Any) -> float:
    """Return a builtin_interfaces/Duration in seconds."""
    return float(span.sec + span.nanosec / NANOSECONDS)


def duration(span_s: float) -> Any:
    """Return seconds as a builtin_interfaces/Duration."""
    sec, nanosec = divmod(round(span_s * NANOSECONDS), NANOSECONDS)
    return Duration(sec=sec, nanosec=nanosec)


def chat_from(turns: Sequence[Any]) -> tuple[ChatMessage, ...]:
    """Return the turns of a chat. Raises RequestError for an unknown role."""
    return tuple(ChatMessage(role=turn.role, content=turn.content) for turn in turns)


def request_from_goal(goal: Any) -> Request:
    """Return what a Generate goal asks for.

    :raises RequestError: a field is out of range; the message names it, its value and the limit.
    """
    sampling = goal.sampling
    return Request(
        prompt=goal.prompt, raw_prompt=goal.raw_prompt, messages=chat_from(goal.messages),
        sampling=SamplingOptions(
            temperature=sampling.temperature, top_p=sampling.top_p, top_k=sampling.top_k,
            min_p=sampling.min_p, repetition_penalty=sampling.repetition_penalty,
            seed=sampling.seed if sampling.use_seed else None),
        max_tokens=goal.max_tokens, stop=tuple(goal.stop), timeout_s=seconds(goal.timeout),
        priority=goal.priority, response_schema=goal.response_schema,
        draft_hint=goal.draft_hint, draft_length=goal.draft_length)


def goal_from_request(request: Request) -> Any:
    """Return the Generate goal that asks for the same.

    :raises RequestError: a priority that int32 cannot hold; it would be cut off without a word.
    """
    if not -2**31 <= request.priority < 2**31:
        raise RequestError(ErrorCode.INVALID_GOAL, f'priority is {request.priority}; it must be '
                           'in [-2147483648, 2147483647]')
    sampling = request.sampling
    return Generate.Goal(
        prompt=request.prompt, raw_prompt=request.raw_prompt,
        messages=[messages.ChatMessage(role=turn.role, content=turn.content)
                  for turn in request.messages],
        sampling=messages.SamplingOptions(
            temperature=float(sampling.temperature), top_p=float(sampling.top_p),
            top_k=sampling.top_k, min_p=float(sampling.min_p),
            repetition_penalty=float(sampling.repetition_penalty),
            use_seed=sampling.seed is not None, seed=sampling.seed or 0),
        max_tokens=request.max_tokens, stop=list(request.stop),
        timeout=duration(request.timeout_s), priority=request.priority,
        response_schema=request.response_schema, draft_hint=request.draft_hint,
        draft_length=request.draft_length)


def result_to_message(result: Result) -> Any:
    """Return a Generate result."""
    durations = result.durations
    return Generate.Result(
        error_code=int(result.error_code), error_msg=clean(result.error_msg),
        text=clean(result.text), finish_reason=int(result.finish_reason),
        prompt_tokens=result.prompt_tokens, reused_tokens=result.reused_tokens,
        completion_tokens=result.completion_tokens, iterations=result.iterations,
        drafted=result.drafted, accepted=result.accepted, drafts_used=list(result.drafts_used),
        seed_used=result.seed_used, queue_s=durations.queue_s, prefill_s=durations.prefill_s,
        first_token_s=durations.first_token_s, decode_s=durations.decode_s,
        total_s=durations.total_s, tokens_per_second=result.tokens_per_second)


def result_from_message(message: Any) -> Result:
    """Return the value of a Generate result."""
    return Result(
        text=message.text, finish_reason=FinishReason(message.finish_reason),
        error_code=ErrorCode(message.error_code), error_msg=message.error_msg,
        prompt_tokens=message.prompt_tokens, reused_tokens=message.reused_tokens,
        completion_tokens=message.completion_tokens, iterations=message.iterations,
        drafted=message.drafted, accepted=message.accepted,
        drafts_used=tuple(message.drafts_used), seed_used=message.seed_used,
        durations=Durations(queue_s=message.queue_s, prefill_s=message.prefill_s,
                            first_token_s=message.first_token_s, decode_s=message.decode_s,
                            total_s=message.total_s))


def progress_to_message(progress: Progress, *, seq: int, queue_position: int = 0) -> Any:
    """Return Generate feedback."""
    return Generate.Feedback(
        state=int(progress.state), queue_position=queue_position, seq=seq,
        delta_text=clean(progress.delta_text), completion_tokens=progress.completion_tokens,
        active_draft=progress.active_draft, acceptance=float(progress.acceptance))


def progress_from_message(message: Any) -> Progress:
    """Return the value of Generate feedback, without its numbering."""
    return Progress(state=GoalState(message.state), delta_text=message.delta_text,
                    completion_tokens=message.completion_tokens,
                    active_draft=message.active_draft, acceptance=message.acceptance)


def residency_to_message(residency: Residency, stamp: Any) -> Any:
    """Return a DraftResidency message."""
    message = messages.DraftResidency(
        drafts=[_draft_to_message(draft) for draft in residency.drafts],
        cache_capacity=residency.cache_capacity, resident_bytes=residency.resident_bytes,
        budget_bytes=residency.budget_bytes, active_draft=residency.active_draft)
    message.header.stamp = stamp
    return message


def residency_from_message(message: Any) -> Residency:
    """Return the value of a DraftResidency message."""
    return Residency(
        drafts=tuple(_draft_from_message(draft) for draft in message.drafts),
        cache_capacity=message.cache_capacity, resident_bytes=message.resident_bytes,
        budget_bytes=message.budget_bytes, active_draft=message.active_draft)


def _draft_from_message(message: Any) -> DraftStatus:
    return DraftStatus(
        name=message.name, domain=message.domain, state=DraftState(message.state),
        num_bytes=message.num_bytes, score=message.score, in_working_set=message.in_working_set,
        reason=message.reason)


def _draft_to_message(draft: DraftStatus) -> Any:
    return messages.DraftStatus(
        name=draft.name, domain=draft.domain, state=int(draft.state), num_bytes=draft.num_bytes,
        score=float(draft.score), in_working_set=draft.in_working_set, reason=clean(draft.reason))


def throughput_to_message(throughput: Throughput, stamp: Any, *, queue_length: int) -> Any:
    """Return a Throughput message."""
    shares = throughput.shares
    message = messages.Throughput(
        tokens_per_second=float(throughput.tokens_per_second),
        committed_per_iteration=float(throughput.committed_per_iteration),
        acceptance=float(throughput.acceptance), draft_length=float(throughput.draft_length),
        desired_share=float(shares.desired), fallback_share=float(shares.fallback),
        prediction_share=float(shares.prediction), load_wait_share=float(shares.load_wait),
        num_loads=throughput.num_loads, num_evictions=throughput.num_evictions,
        num_wasted_prefetches=throughput.num_wasted_prefetches,
        hit_rate=float(throughput.hit_rate), queue_length=queue_length,
        rss_bytes=throughput.rss_bytes, available_bytes=throughput.available_bytes)
    message.header.stamp = stamp
    return message


def throughput_from_message(message: Any) -> Throughput:
    """Return the value of a Throughput message, without the queue's length."""
    return Throughput(
        tokens_per_second=message.tokens_per_second, acceptance=message.acceptance,
        committed_per_iteration=message.committed_per_iteration,
        draft_length=message.draft_length, shares=TimeShares(
            desired=message.desired_share, fallback=message.fallback_share,
            prediction=message.prediction_share, load_wait=message.load_wait_share),
        num_loads=message.num_loads, num_evictions=message.num_evictions,
        num_wasted_prefetches=message.num_wasted_prefetches, hit_rate=message.hit_rate,
        rss_bytes=message.rss_bytes, available_bytes=message.available_bytes)


def fill_runtime_info(response: Any, info: RuntimeInfo, residency: Residency, stamp: Any) -> None:
    """Fill what a GetRuntimeInfo response says about an open runtime."""
    response.target_model = info.target_model
    response.architecture = info.architecture
    response.dtype = info.dtype
    response.device = info.device
    response.vocab_size = info.vocab_size
    response.context_tokens = info.context_tokens
    response.has_chat_template = info.has_chat_template
    response.policy = info.policy
    response.scheduling_interval = info.scheduling_interval
    response.drafts = list(info.drafts)
    response.residency = residency_to_message(residency, stamp)
    response.memory = [messages.MemoryItem(name=name, num_bytes=num_bytes)
                       for name, num_bytes in info.memory]
    response.memory_sum_bytes = info.memory_sum_bytes
    response.memory_available_bytes = info.memory_available_bytes


def check_to_status(check: Check, *, node_name: str) -> Any:
    """Return a DiagnosticStatus by REP 107: ``node: component``."""
    return DiagnosticStatus(
        level=LEVELS[check.level], name=f'{node_name}: {check.name}', message=clean(check.message),
        hardware_id=node_name,
        values=[KeyValue(key=key, value=clean(str(value))) for key, value in check.values.items()])


def check_from_status(status: Any, *, node_name: str) -> Check | None:
    """Return the value of a DiagnosticStatus; None when it is of another node."""
    name = status.name.removeprefix(f'{node_name}: ')
    if status.hardware_id != node_name or name == status.name:
        return None
    levels = {level: health for health, level in LEVELS.items()}
    return Check(name=name, level=levels.get(status.level, Health.ERROR), message=status.message,
                 values={pair.key: pair.value for pair in status.values})
