# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the command line prints about a goal: streamed text, the summary line, the JSON object."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from memspec_ros.errors import ErrorCode
from memspec_ros.records import FinishReason, Progress, Result

FAILED_REASONS = (FinishReason.CANCELED, FinishReason.TIMEOUT, FinishReason.ERROR)


def succeeded(result: Result) -> bool:
    """Whether the goal ended by itself: at its end, a stop string, or a length limit."""
    return result.error_code == ErrorCode.NONE and result.finish_reason not in FAILED_REASONS


def result_as_json(result: Result) -> dict[str, Any]:
    """Return the object that --json prints; the keys are part of the command's contract."""
    durations = result.durations
    return {
        'text': result.text,
        'finish_reason': result.finish_reason.name,
        'error_code': result.error_code.name,
        'error_msg': result.error_msg,
        'prompt_tokens': result.prompt_tokens,
        'reused_tokens': result.reused_tokens,
        'completion_tokens': result.completion_tokens,
        'tokens_per_second': result.tokens_per_second,
        'iterations': result.iterations,
        'drafted': result.drafted,
        'accepted': result.accepted,
        'drafts_used': list(result.drafts_used),
        'seed_used': result.seed_used,
        'durations': {
            'queue_s': durations.queue_s, 'prefill_s': durations.prefill_s,
            'first_token_s': durations.first_token_s, 'decode_s': durations.decode_s,
            'total_s': durations.total_s},
    }


def committed_per_iteration(result: Result) -> float:
    """Output tokens per draft-and-verify iteration."""
    return result.completion_tokens / result.iterations if result.iterations else 0.0


def summary(result: Result) -> str:
    """Return the figures of a goal in one line."""
    drafts = f' ({", ".join(result.drafts_used)})' if result.drafts_used else ''
    parts = [
        f'{result.completion_tokens} tokens in {result.durations.total_s:.2f} s',
        f'{result.tokens_per_second:.1f} tokens/s decoding',
        f'{committed_per_iteration(result):.2f} committed per iteration',
        f'{result.accepted}/{result.drafted} draft tokens accepted{drafts}',
        f'first token after {result.durations.first_token_s:.2f} s',
        f'ended by {result.finish_reason.name}']
    return '; '.join(parts)


def add_output_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add --json and --quiet."""
    group = parser.add_argument_group('output')
    group.add_argument('--json', action='store_true', help='print one JSON object, nothing else')
    group.add_argument('--quiet', action='store_true', help='print the text only')
    return group


class ResultPrinter:
    """Streams a goal's text to stdout and says on stderr how it went, or prints the object."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self._as_json = as_json
        self._quiet = quiet
        self._last = '\n'
        self._told = ''

    def show(self, progress: Progress) -> None:
        """Write the text that an iteration added."""
        if progress.delta_text and not self._as_json:
            sys.stdout.write(progress.delta_text)
            sys.stdout.flush()
            self._last = progress.delta_text[-1]

    def tell(self, line: str) -> None:
        """Say on stderr how things stand, once, where somebody wants to read it."""
        if line != self._told and not self._quiet and not self._as_json:
            self._told = line
            print(f'memspec: {line}', file=sys.stderr)

    def finish(self, result: Result) -> int:
        """Print the rest and return the exit code: 0, or 1 for a goal that failed."""
        if self._as_json:
            print(json.dumps(result_as_json(result), ensure_ascii=False))
        elif self._last != '\n':
            print(flush=True)
        if result.error_msg:
            print(f'memspec: {result.error_code.name}: {result.error_msg}', file=sys.stderr)
        if not self._as_json and not self._quiet and result.prompt_tokens:
            print(summary(result), file=sys.stderr)
        return 0 if succeeded(result) else 1
