# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The results of goals: what the runtime said, completed by what only the node knows."""

from __future__ import annotations

import dataclasses
import time
import traceback

from memspec_ros.errors import ErrorCode, RequestError
from memspec_ros.node.backend import InterruptedGoal
from memspec_ros.node.goal import Goal, StopOrder
from memspec_ros.records import Durations, FinishReason, Result

# What a runtime says of a goal that was told to stop; the order knows better why.
STOP_CODES = (ErrorCode.NONE, ErrorCode.CANCELED, ErrorCode.TIMEOUT)


def refused(goal: Goal, error: RequestError) -> Result:
    """Return the result of a goal that was never queued."""
    return Result(finish_reason=FinishReason.ERROR, error_code=error.code, error_msg=str(error),
                  durations=Durations(total_s=goal.age_s))


def stopped_in_queue(goal: Goal, order: StopOrder) -> Result:
    """Return the result of a goal that ended before it began, or while it was interrupted."""
    if goal.interrupted is not None:
        return _stopped_while_interrupted(goal, order, goal.interrupted)
    return Result(finish_reason=order.reason, error_code=order.code,
                  error_msg=f'{order.message} (it waited {goal.age_s:.2f} s in the queue)',
                  prompt_tokens=goal.prepared.prompt_tokens,
                  durations=Durations(queue_s=goal.age_s, total_s=goal.age_s))


def _stopped_while_interrupted(goal: Goal, order: StopOrder,
                               interrupted: InterruptedGoal) -> Result:
    result = interrupted.end(order.reason, order.code,
                             f'{order.message} (while a goal of higher priority was served)')
    queue_s = goal.waited_s + time.monotonic() - goal.interrupted_s
    return dataclasses.replace(result, durations=_durations(goal, result, queue_s))


def abandoned(goal: Goal, order: StopOrder) -> Result:
    """Return the result of a goal whose generation did not stop in time: what was streamed."""
    return Result(text=goal.sent_text, finish_reason=order.reason, error_code=order.code,
                  error_msg=f'{order.message} (the running pass did not end in time)',
                  prompt_tokens=goal.prepared.prompt_tokens,
                  durations=Durations(total_s=goal.age_s))


def crashed(goal: Goal, text: str, error: BaseException) -> Result:
    """Return the result of a goal whose generation raised, with the text until then."""
    # torch.OutOfMemoryError is no MemoryError, and this file does not import torch.
    out_of_memory = 'OutOfMemory' in type(error).__name__ or isinstance(error, MemoryError)
    code = ErrorCode.OUT_OF_MEMORY if out_of_memory else ErrorCode.INTERNAL
    return Result(text=text, finish_reason=FinishReason.ERROR, error_code=code,
                  error_msg=f'{type(error).__name__}: {error}',
                  prompt_tokens=goal.prepared.prompt_tokens)


def completed(goal: Goal, result: Result) -> Result:
    """Add the time in the queue, and the reason of an early end, to the runtime's result."""
    result = dataclasses.replace(result, durations=_durations(goal, result, goal.waited_s))
    order = goal.ended_by
    if order is None or order.reason != result.finish_reason \
            or result.error_code not in STOP_CODES:
        return result
    return dataclasses.replace(
        result, error_code=order.code,
        error_msg=f'{order.message} ({result.completion_tokens} tokens were generated)')


def _durations(goal: Goal, result: Result, queue_s: float) -> Durations:
    first_token_s = result.durations.first_token_s
    return dataclasses.replace(
        result.durations, queue_s=queue_s, total_s=goal.age_s,
        first_token_s=goal.started_s - goal.accepted_s + first_token_s if first_token_s else 0.0)


def summary(goal: Goal, result: Result) -> str:
    """Return a goal's one line in the log, without its text."""
    durations = result.durations
    turns = f', interrupted {goal.num_interruptions} times' if goal.num_interruptions else ''
    line = (f'goal {goal.uuid.hex()} (number {goal.number}, priority {goal.priority}) '
            f'{result.finish_reason.name}: {result.prompt_tokens} + {result.completion_tokens} '
            f'tokens in {durations.total_s:.2f} s (queue {durations.queue_s:.2f}, '
            f'prefill {durations.prefill_s:.2f}, decode {durations.decode_s:.2f}), '
            f'{result.tokens_per_second:.1f} tokens/s, {result.reused_tokens} reused, '
            f'{result.accepted} of {result.drafted} drafted accepted{turns}')
    return f'{line}; {result.error_code.name}: {result.error_msg}' if result.error_code else line


def trace(error: BaseException) -> str:
    """Return an error with its trace, for the log."""
    return ''.join(traceback.format_exception(type(error), error, error.__traceback__))
