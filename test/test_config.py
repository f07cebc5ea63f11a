# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Settings: params files that are wrong in ways that cost memory or time, and sets of values."""

import pytest

from memspec_ros.config import Settings, parameter_specs, read_params_file
from memspec_ros.errors import ConfigError


def params(tmp_path, text):
    path = tmp_path / 'params.yaml'
    path.write_text(text)
    return path


def test_a_params_file_that_contains_itself_is_refused(tmp_path):
    path = params(tmp_path, '/**:\n  ros__parameters: &a\n    target: *a\n')
    with pytest.raises(ConfigError, match=r'params\.yaml cannot be read: maximum recursion'):
        read_params_file(path)


def test_a_params_file_whose_aliases_unfold_without_end_is_cut_off(tmp_path):
    lines = ['a0: &a0 {x: 1, y: 1, z: 1, w: 1}']
    lines += [f'a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}, z: *a{n - 1}, w: *a{n - 1}}}'
              for n in range(1, 15)]
    path = params(tmp_path, '\n'.join([*lines, '/**: {ros__parameters: *a14}']))
    with pytest.raises(ConfigError, match='there is no parameter'):
        Settings.from_parameters(read_params_file(path))


def test_a_large_params_file_is_not_read(tmp_path):
    path = params(tmp_path, '#' * (1 << 21))
    with pytest.raises(ConfigError, match='has 2097152 bytes; at most 1048576 are read'):
        read_params_file(path)


def test_values_that_do_not_go_together_are_refused_as_a_set():
    settings = Settings()
    with pytest.raises(ConfigError, match=r'machine\.shrink_below_mb is 500\.0 and'):
        settings.replace({'machine.shrink_below_mb': 500})
    changed = settings.replace({'machine.shrink_below_mb': 500, 'machine.grow_above_mb': 600})
    assert changed.machine.shrink_below_mb == 500.0


def test_settings_come_back_from_their_parameters():
    settings = Settings.from_parameters({'machine.hold_s': 3, 'server.model_roots': ['/a', '/b']})
    assert Settings.from_parameters(settings.as_parameters()) == settings
    assert set(settings.as_parameters()) == {spec.name for spec in parameter_specs()}
