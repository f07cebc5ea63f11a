# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""When K shrinks and grows: short memory, stalls, hysteresis, and kernels that say less."""

import pytest

from memspec_ros.config import MachineSettings
from memspec_ros.errors import ConfigError
from memspec_ros.runtime.memory_watch import MB, MemoryState, MemoryWatch, read_memory

AMPLE = MemoryState(available_bytes=1000 * MB)
SHORT = MemoryState(available_bytes=100 * MB)
BETWEEN = MemoryState(available_bytes=200 * MB)
STALLED = MemoryState(available_bytes=1000 * MB, stalled_percent=30.0)
CALMING = MemoryState(available_bytes=1000 * MB, stalled_percent=15.0)


class Machine:
    """A watch over a machine with K of 4, and time that passes when told."""

    def __init__(self, **settings):
        self.settings = MachineSettings(**settings)
        self.watch = MemoryWatch()
        self.now_s = 1000.0

    def see(self, state, after_s=0.25):
        self.now_s += after_s
        return self.watch.update(state, self.settings, full_capacity=4, now_s=self.now_s,
                                 capacity=4 if self.watch.limit is None else self.watch.limit)

    def limits(self, *states, after_s=0.25):
        found = []
        for state in states:
            self.see(state, after_s)
            found.append(self.watch.limit)
        return found


def test_enough_memory_changes_nothing():
    machine = Machine()
    assert not machine.see(AMPLE)
    assert not machine.see(BETWEEN)
    assert machine.watch.limit is None


def test_short_memory_shrinks_one_by_one_down_to_one():
    machine = Machine()
    assert machine.limits(SHORT, SHORT, SHORT, SHORT) == [3, 2, 1, 1]
    assert machine.watch.reason == 'memory pressure: 100 MB available, less than 128'


def test_it_grows_back_after_ample_memory_was_held_and_no_sooner():
    machine = Machine(hold_s=10.0)
    machine.limits(SHORT, SHORT)
    assert machine.limits(*[AMPLE] * 4, after_s=3.0) == [2, 2, 2, 2]
    assert machine.limits(AMPLE, after_s=1.0) == [3]
    assert machine.watch.reason.startswith('memory pressure')
    assert machine.limits(AMPLE, AMPLE, after_s=9.0) == [3, None]
    assert machine.watch.reason == ''


def test_between_the_thresholds_it_waits_and_the_hold_begins_anew():
    machine = Machine(hold_s=10.0)
    machine.limits(SHORT)
    assert machine.limits(AMPLE, BETWEEN, AMPLE, AMPLE, after_s=9.0) == [3, 3, 3, 3]
    assert machine.limits(AMPLE, after_s=2.0) == [None]


def test_stalls_shrink_no_faster_than_they_can_show_relief():
    machine = Machine(pressure_percent=20.0)
    assert machine.limits(STALLED, STALLED, STALLED) == [3, 3, 3]
    assert machine.limits(STALLED, after_s=3.0) == [2]
    assert machine.watch.reason == ('memory pressure: tasks stalled on memory 30 % of the time, '
                                    'at least 20')
    assert machine.limits(CALMING, CALMING, after_s=60.0) == [2, 2]
    assert machine.limits(AMPLE, AMPLE, after_s=11.0) == [2, 3]


def test_100_percent_is_never():
    machine = Machine(pressure_percent=100.0)
    assert machine.limits(MemoryState(available_bytes=1000 * MB, stalled_percent=100.0)) == [None]


def test_switched_off_it_lifts_its_limit():
    machine = Machine()
    machine.limits(SHORT)
    machine.settings = MachineSettings(watch_memory=False)
    assert machine.see(SHORT)
    assert (machine.watch.limit, machine.watch.reason) == (None, '')


def test_thresholds_that_cross_are_refused():
    with pytest.raises(ConfigError, match=r'machine\.shrink_below_mb is 500 and '
                                          r'machine\.grow_above_mb 384\.0: the first must not'):
        MachineSettings(shrink_below_mb=500)


def test_a_procfs_is_read(tmp_path):
    (tmp_path / 'meminfo').write_text('MemFree: 1 kB\nMemAvailable:  2000 kB\n')
    assert read_memory(str(tmp_path)) == MemoryState(available_bytes=2_048_000)
    (tmp_path / 'pressure').mkdir()
    pressure = tmp_path / 'pressure' / 'memory'
    pressure.write_text('some avg10=12.50 avg60=1.00 avg300=0.00 total=5\n'
                        'full avg10=3.00 avg60=0.00 avg300=0.00 total=1\n')
    assert read_memory(str(tmp_path)).stalled_percent == 12.5
    pressure.write_text('nonsense\n')
    assert read_memory(str(tmp_path)).stalled_percent == 0.0


def test_this_machine():
    assert read_memory('/proc').available_bytes > 0


def test_no_meminfo_is_told(tmp_path):
    with pytest.raises(OSError, match='meminfo'):
        read_memory(str(tmp_path))
