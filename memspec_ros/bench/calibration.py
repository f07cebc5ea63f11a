# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a measurement needs to know of the machine before it starts, draft by draft."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from memspec_ros.bench.real_time import GoalKey, RealTimeBench
from memspec_ros.bench.record import GoalRecord
from memspec_ros.bench.strategies import NGRAM, STRATEGIES, static_strategy
from memspec_ros.boundaries import Draft
from memspec_ros.replay.tracer import PrefixContext
from memspec_ros.runtime.plan import NGRAM_DRAFT

FEW_TOKENS = 8
NUM_REPEATS = 3
NUM_LOADING_GOALS = 2


def calibrate(bench: RealTimeBench, keys: Sequence[GoalKey]) -> list[GoalRecord]:
    """Run every draft on a goal, and MAB-Async, which loads them all while it decodes.

    So all times are known; the records do not count.
    """
    strategies = [static_strategy(name) for name in bench.pool]
    if NGRAM_DRAFT in bench.assembly.draft_names:
        strategies.append(STRATEGIES[NGRAM])
    strategies += [STRATEGIES['mab_async']] * NUM_LOADING_GOALS
    return [bench.run(strategy, keys[number % len(keys)])
            for number, strategy in enumerate(strategies)]


def measure_catch_up(bench: RealTimeBench, key: GoalKey,
                     context_tokens: int) -> tuple[float, float]:
    """Return what a catch-up takes: a fixed part, and per missed token; mean over drafts.

    From one over all that a draft looks at, and one over a few tokens.

    :param context_tokens: the most that a draft looks at.
    """
    tokens, prompt_length, _ = bench.decode_plainly(key)
    few = min(FEW_TOKENS, len(tokens) - prompt_length - 1)
    if few < 1:
        return 0.0, 0.0
    context = PrefixContext(prompt_length=prompt_length, target=bench.assembly.target)
    pairs = [_times_s(bench.bring_in(draft), context, tokens, few) for draft in bench.pool]
    all_s, few_s = (statistics.fmean(times) for times in zip(*pairs, strict=True))
    num_all = min(len(tokens) - few, context_tokens)
    per_token_s = max(0.0, (all_s - few_s) / max(1, num_all - few))
    return max(0.0, few_s - few * per_token_s), per_token_s


def _times_s(draft: Draft, context: PrefixContext, tokens: Sequence[int],
             few: int) -> tuple[float, float]:
    """Return median seconds of a catch-up over all tokens but a few, and over those."""
    times: list[tuple[float, float]] = []
    for _ in range(NUM_REPEATS):
        draft.reset()
        started_s = time.perf_counter()
        context.tokens = tokens[:len(tokens) - few]
        draft.catch_up(context)
        caught_up_s = time.perf_counter()
        context.tokens = tokens
        draft.catch_up(context)
        times.append((caught_up_s - started_s, time.perf_counter() - caught_up_s))
    draft.reset()
    all_s, few_s = (statistics.median(column) for column in zip(*times, strict=True))
    return all_s, few_s
