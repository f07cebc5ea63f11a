# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Temperatures as the kernel shows them."""

from memspec_ros.runtime.thermal import read_temperatures


def zone(folder, number, name, temp):
    path = folder / f'thermal_zone{number}'
    path.mkdir()
    (path / 'type').write_text(f'{name}\n')
    (path / 'temp').write_text(f'{temp}\n')


def test_zones_by_name_in_celsius(tmp_path):
    zone(tmp_path, 0, 'cpu-thermal', 51500)
    zone(tmp_path, 1, 'gpu-thermal', 48000)
    zone(tmp_path, 2, 'cpu-thermal', 60000)
    assert read_temperatures(str(tmp_path)) == {
        'cpu-thermal': 51.5, 'gpu-thermal': 48.0, 'cpu-thermal (thermal_zone2)': 60.0}


def test_a_zone_that_cannot_be_read_is_left_out(tmp_path):
    zone(tmp_path, 0, 'gpu-thermal', 'asleep')
    zone(tmp_path, 1, 'cpu-thermal', 40000)
    assert read_temperatures(str(tmp_path)) == {'cpu-thermal': 40.0}


def test_a_machine_without_zones(tmp_path):
    assert read_temperatures(str(tmp_path / 'none')) == {}
