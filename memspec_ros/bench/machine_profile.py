# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""This machine as replay sees it, from all iterations of a measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from memspec_ros.bench.record import GoalRecord
from memspec_ros.bench.timings import Timings, mean, sum_of_timings
from memspec_ros.replay.profile import DeviceProfile

PREDICTING = ('memspec', 'prediction_only')
MIN_PASSES = 20


def profile_of(start: DeviceProfile, records: Sequence[GoalRecord]) -> DeviceProfile:
    """Return a profile with the means of what was measured.

    :param start: stands where there was nothing to measure: widths that did not occur are
        scaled by those that did.
    """
    timings = sum_of_timings(record.timings for record in records)
    if not timings.target:
        return start
    target_s = _target_s(start, timings)
    load_s, awaited_load_share = _loads(timings, start)
    steps_s = {draft: mean(timings.steps, draft, otherwise)
               for draft, otherwise in start.draft_step_s.items()}
    return replace(
        start, target_s=target_s, draft_step_s={**steps_s, '': _mean_step_s(timings, steps_s)},
        overhead_s=max(0.0, mean(timings.overhead, 'all')),
        catch_up_s=(_switch_s(timings, start), 0.0), prediction_s=_prediction_s(records),
        load_slowdown=_slowdown(timings, target_s), load_s=load_s,
        awaited_load_share=awaited_load_share,
        source=f'means over {len(records)} measured goals')


def _target_s(start: DeviceProfile, timings: Timings) -> tuple[float, ...]:
    seen = {int(width): mean(timings.target, width) for width, sums in timings.target.items()
            if sums[0] >= MIN_PASSES and int(width) < len(start.target_s)}
    if not seen:
        return start.target_s

    def seconds(width: int) -> float:
        nearest = min(seen, key=lambda at: abs(at - width))
        return seen[nearest] * start.target_s[width] / start.target_s[nearest]
    return (0.0, *(seconds(width) for width in range(1, len(start.target_s))))


def _mean_step_s(timings: Timings, steps_s: dict[str, float]) -> float:
    own = [seconds for draft, seconds in steps_s.items()
           if draft not in ('', 'ngram') and draft in timings.steps]
    return sum(own) / len(own) if own else steps_s['']


def _switch_s(timings: Timings, start: DeviceProfile) -> float:
    """Mean of what the first drafting after a switch takes beyond its steps."""
    count = extra_s = 0.0
    for draft, (num_switches, seconds, num_steps) in timings.switches.items():
        if draft not in start.free_catch_up:
            count += num_switches
            extra_s += seconds - num_steps * mean(timings.steps, draft)
    return max(0.0, extra_s / count) if count else start.catch_up_s[0]


def _loads(timings: Timings, start: DeviceProfile) -> tuple[Mapping[str, float], float]:
    """Mean of loads beside decoding, for all drafts, and the share of it of those on their own.

    The profile to start from has loads on their own.
    """
    num_loads = sum(count for count, _ in timings.loads.values())
    if not num_loads:
        return start.load_s, start.awaited_load_share
    load_s = sum(seconds for _, seconds in timings.loads.values()) / num_loads
    return {'': load_s}, min(1.0, start.load_of('') / load_s)


def _prediction_s(records: Sequence[GoalRecord]) -> float:
    own = [record for record in records if record.strategy in PREDICTING]
    num_points = sum(record.num_points - 1 for record in own)
    return sum(record.prediction_s for record in own) / num_points if num_points else 0.0


def _slowdown(timings: Timings, target_s: Sequence[float]) -> float:
    """How much longer passes take while a draft loads."""
    loading = {int(width): sums for width, sums in timings.target_loading.items()
               if int(width) < len(target_s)}
    quiet_s = sum(sums[0] * target_s[width] for width, sums in loading.items())
    loading_s = sum(sums[1] for sums in loading.values())
    return max(1.0, loading_s / quiet_s) if quiet_s else 1.0
