# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Setting up a measurement: the paper's ratio of load to iteration, and what the machine takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from memspec_ros.bench.real_time import GoalKey, RealTimeBench
from memspec_ros.bench.strategies import PLAIN, STRATEGIES
from memspec_ros.errors import LoadError
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.runtime.plan import Plan

PROBE_MB_S = 20.0
NUM_LOADS = 5
MAX_CORRECTIONS = 4
TOLERANCE = 0.03


@dataclass(frozen=True, kw_only=True)
class Regime:
    """The conditions that were set and met.

    :param iteration_s: mean seconds of an iteration of General-Static.
    :param natural_load_s: a load without cap; ``load_s`` with it.
    :param load_iterations: what a load takes in iterations, as met.
    """

    iteration_s: float
    plain_s: float
    natural_load_s: float
    load_s: float
    load_bandwidth_mb_s: float

    @property
    def load_iterations(self) -> float:
        """A load in iterations."""
        return self.load_s / self.iteration_s


def hold_load_time(bench: RealTimeBench, keys: Sequence[GoalKey],
                   load_iterations: float) -> Regime:
    """Cap the bandwidth so that a load takes so many iterations, and tell what was met.

    :param keys: goals to measure the iteration on.
    """
    bench.set_bandwidth(0.0)
    iteration_s, plain_s = (_iteration_s(bench, name, keys)
                            for name in ('general_static', PLAIN))
    natural_s = measure_load_s(bench)
    wanted_s = load_iterations * iteration_s
    if wanted_s <= natural_s:
        return Regime(iteration_s=iteration_s, plain_s=plain_s, natural_load_s=natural_s,
                      load_s=natural_s, load_bandwidth_mb_s=0.0)
    bandwidth, load_s = _cap_for(bench, wanted_s)
    return Regime(iteration_s=iteration_s, plain_s=plain_s, natural_load_s=natural_s,
                  load_s=load_s, load_bandwidth_mb_s=bandwidth)


def _cap_for(bench: RealTimeBench, wanted_s: float) -> tuple[float, float]:
    """Return the cap, MB/s, under which a load takes so long, and what it took."""
    bandwidth = PROBE_MB_S
    for _ in range(MAX_CORRECTIONS):
        bench.set_bandwidth(bandwidth)
        load_s = measure_load_s(bench)
        if abs(load_s / wanted_s - 1.0) < TOLERANCE:
            break
        bandwidth *= load_s / wanted_s
    else:
        bench.set_bandwidth(bandwidth)
        load_s = measure_load_s(bench)
    return bandwidth, load_s


def _iteration_s(bench: RealTimeBench, strategy: str, keys: Sequence[GoalKey]) -> float:
    records = [bench.run(STRATEGIES[strategy], key) for key in keys]
    return sum(record.decode_s for record in records) / \
        sum(record.num_iterations for record in records)


def measure_load_s(bench: RealTimeBench, num_loads: int = NUM_LOADS) -> float:
    """Return the median seconds of loads, over the pool's drafts in turn.

    :raises LoadError: a draft cannot be loaded.
    """
    cache = bench.assembly.draft_cache
    seconds = []
    for number in range(num_loads):
        draft = bench.pool[number % len(bench.pool)]
        cache.reset()
        started_s = time.perf_counter()
        cache.update(Plan(ranking=(draft,), scores={draft: 1.0}, working_set=(draft,),
                          awaited=draft))
        if not cache.wait_for(draft):
            raise LoadError(f"draft '{draft}' cannot be loaded")
        seconds.append(time.perf_counter() - started_s)
    cache.reset()
    return statistics.median(seconds)


def measured_profile(bench: RealTimeBench, regime: Regime, *, prediction_s: float,
                     load_slowdown: float = 1.0) -> DeviceProfile:
    """Return this machine as replay sees it, from the times that the runtime keeps.

    What an iteration takes beside passes and steps is what General-Static took in all.
    """
    costs = bench.assembly.controller.cost_model
    draft_length = bench.draft_length
    steps_s = {draft: costs.draft_step_s(draft) for draft in bench.pool}
    general_s = regime.iteration_s - costs.target_s(draft_length + 1) \
        - draft_length * statistics.fmean(steps_s.values())
    return DeviceProfile(
        name='this machine', source='measured', overhead_s=max(0.0, general_s),
        target_s=(0.0, *(costs.target_s(width) for width in range(1, 17))),
        draft_step_s={'': statistics.fmean(steps_s.values()),
                      'ngram': costs.draft_step_s('ngram'), **steps_s},
        load_s={'': regime.load_s}, prediction_s=prediction_s, load_slowdown=load_slowdown,
        catch_up_s=(statistics.fmean(costs.catch_up_s(draft) for draft in bench.pool), 0.0))
