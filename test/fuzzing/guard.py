# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Runs one case after the other: none may crash, hang, or take memory without bound."""

import contextlib
import resource
import signal
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from memspec_ros.errors import MemSpecError

CASE_LIMIT_S = 20
# What a case may add to the process's address space; models here have kilobytes.
CASE_LIMIT_BYTES = 2 << 30


class HangError(Exception):
    """A case took longer than it may."""


class Guard:
    """Counts cases, and what went wrong in them.

    :param limit_memory: whether allocations beyond the bound fail (not with ROS in the process,
        whose threads map memory of their own).
    """

    def __init__(self, *, limit_memory=True):
        self.cases = 0
        self.refusals = 0
        self.failures = []
        self.slowest_s = self.slowest_cpu_s = 0.0
        self._limit_memory = limit_memory

    @contextlib.contextmanager
    def case(self, described):
        """Run a case; a MemSpecError with a message is what it may raise.

        :param described: says what the case was, when it failed.
        """
        self.cases += 1
        started_s, started_cpu_s = time.monotonic(), time.process_time()
        signal.alarm(CASE_LIMIT_S)
        try:
            yield
        except MemSpecError as error:
            self.refusals += 1
            if len(str(error)) < 8:
                self._fail(described, f'a refusal without a cause: {error!r}')
        except Exception as error:
            self._fail(described, f'{type(error).__name__}: {error}')
        finally:
            signal.alarm(0)
            self.slowest_s = max(self.slowest_s, time.monotonic() - started_s)
            self.slowest_cpu_s = max(self.slowest_cpu_s, time.process_time() - started_cpu_s)

    def _fail(self, described, problem):
        self.failures.append(f'{problem[:300]} in {described()[:300]}')

    @contextlib.contextmanager
    def watching(self):
        """Bound time and memory while entered."""
        before = resource.getrlimit(resource.RLIMIT_AS)
        previous = signal.signal(signal.SIGALRM, _hang)
        if self._limit_memory:
            pages = int(Path('/proc/self/statm').read_text(encoding='ascii').split()[0])
            resource.setrlimit(resource.RLIMIT_AS, (
                pages * resource.getpagesize() + CASE_LIMIT_BYTES, before[1]))
        try:
            yield self
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
            signal.signal(signal.SIGALRM, previous)

    def figures(self):
        """Return what results/fuzz.json holds of a kind."""
        return {'cases': self.cases, 'failures': len(self.failures), 'refused': self.refusals,
                'slowest_s': round(self.slowest_s, 3),
                'slowest_cpu_s': round(self.slowest_cpu_s, 3)}


def _hang(_number, _frame):
    raise HangError(f'longer than {CASE_LIMIT_S} s')


def run_cases(strategy, num_cases, run, seed):
    """Have Hypothesis draw so many cases and run each; failures are the guard's business."""
    @settings(max_examples=num_cases, deadline=None, database=None, derandomize=False,
              phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
    @given(strategy)
    def each(case):
        run(case)

    seeded(seed)(each)()
