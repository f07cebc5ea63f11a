# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Plain decoding and speculation on one prompt, in turn, in one run."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memspec_ros.cli.goal import answer
from memspec_ros.cli.interrupt import Interrupt
from memspec_ros.cli.output import (
    ResultPrinter,
    committed_per_iteration,
    result_as_json,
    succeeded,
)
from memspec_ros.cli.progress import progress_bar
from memspec_ros.errors import ConfigError
from memspec_ros.records import Progress, Request, Result

if TYPE_CHECKING:
    from memspec_ros.runtime.runtime import MemSpecRuntime

WARM_UP_TOKENS = 16


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Results of the rounds, plain and speculative, in the order they were run."""

    plain: tuple[Result, ...]
    speculative: tuple[Result, ...]
    greedy: bool

    @property
    def speedup(self) -> float:
        """Median decode rate with speculation over the one without."""
        return median_rate(self.speculative) / (median_rate(self.plain) or float('inf'))

    @property
    def same_text(self) -> bool | None:
        """Whether all answers are equal; None when sampling, where they need not be."""
        texts = {result.text for result in (*self.plain, *self.speculative)}
        return len(texts) == 1 if self.greedy else None

    def as_json(self) -> dict[str, Any]:
        """Return the object that --compare --json prints."""
        return {'rounds': len(self.plain), 'speedup': self.speedup, 'same_text': self.same_text,
                'plain': side_as_json(self.plain),
                'speculative': side_as_json(self.speculative)}

    def lines(self) -> Iterator[str]:
        """Yield the lines that --compare prints."""
        yield side_line('plain', self.plain)
        yield side_line('speculative', self.speculative)
        same = {True: '; same text', False: '; NOT the same text', None: ''}[self.same_text]
        yield f'speedup {self.speedup:.2f}x, medians of {len(self.plain)} rounds{same}'


def compare(runtime: MemSpecRuntime, request: Request, interrupt: Interrupt, *, rounds: int,
            as_json: bool) -> int:
    """Measure, print both figures, and return the exit code.

    :raises ConfigError: there is nothing to compare, or a number of rounds below 1.
    """
    if rounds < 1 or request.draft_length == 0:
        raise ConfigError(f'--compare {rounds} with --draft-length {request.draft_length}: '
                          'it needs at least 1 round and a draft length that is not 0')
    results: list[Result] = []
    for goal in progress_bar(goals_of(request, rounds), total=2 * rounds + 1, label='goals'):
        results.append(answer(runtime, goal, interrupt, ignore))
        if not succeeded(results[-1]):
            return ResultPrinter(as_json=as_json, quiet=False).finish(results[-1])
    measured = Comparison(plain=tuple(results[1::2]), speculative=tuple(results[2::2]),
                          greedy=request.sampling.is_greedy)
    print(json.dumps(measured.as_json(), ensure_ascii=False) if as_json
          else '\n'.join(measured.lines()))
    return 0


def goals_of(request: Request, rounds: int) -> Iterator[Request]:
    """A short goal to warm up, then plain and speculative in turn."""
    yield dataclasses.replace(request, max_tokens=WARM_UP_TOKENS)
    for _ in range(rounds):
        yield dataclasses.replace(request, draft_length=0, draft_hint='')
        yield request


def ignore(_progress: Progress) -> None:
    """Show nothing: text on the terminal would be timed too."""


def median_rate(results: tuple[Result, ...]) -> float:
    """Median of the decode rates, tokens/s."""
    return statistics.median(result.tokens_per_second for result in results)


def side_as_json(results: tuple[Result, ...]) -> dict[str, Any]:
    """Return the last result of one side with the rates of all rounds."""
    return {**result_as_json(results[-1]), 'tokens_per_second': median_rate(results),
            'tokens_per_second_of_rounds': [result.tokens_per_second for result in results]}


def side_line(name: str, results: tuple[Result, ...]) -> str:
    """Return one line with the figures of one side."""
    last = results[-1]
    drafts = f', {last.accepted}/{last.drafted} draft tokens accepted ' \
             f'({", ".join(last.drafts_used)})' if last.drafted else ''
    return (f'{name:<12}{median_rate(results):8.1f} tokens/s, {last.completion_tokens} tokens, '
            f'{committed_per_iteration(last):.2f} committed per iteration{drafts}')
