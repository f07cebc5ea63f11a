# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where params files are found, and how errors in them read."""

import argparse

import pytest

import memspec_ros
from memspec_ros.cli import options
from memspec_ros.errors import ConfigError

PARAMS = '/**:\n  ros__parameters:\n    server:\n      queue_capacity: 3\n'


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A prefix with a share folder, and no source tree to look in."""
    config = tmp_path / 'prefix' / 'share' / 'memspec_ros' / 'config'
    config.mkdir(parents=True)
    package = tmp_path / 'prefix' / 'lib' / 'python3' / 'site-packages' / 'memspec_ros'
    monkeypatch.setattr(memspec_ros, '__path__', [str(package)])
    monkeypatch.setattr(memspec_ros, '__file__', str(package / '__init__.py'))
    monkeypatch.setenv('AMENT_PREFIX_PATH', '')
    return config


def settings(name, *, param=(), policy=None):
    return options.settings_from(
        argparse.Namespace(params_file=str(name), param=list(param), policy=policy))


def test_a_bare_name_is_found_in_the_share_folder(installed):
    (installed / 'demo.yaml').write_text(PARAMS, encoding='utf-8')
    assert options.find_params_file('demo.yaml') == installed / 'demo.yaml'
    assert settings('demo.yaml').server.queue_capacity == 3


@pytest.mark.usefixtures('installed')
def test_a_bare_name_is_found_on_the_ament_prefix_path(tmp_path, monkeypatch):
    folder = tmp_path / 'workspace' / 'share' / 'memspec_ros' / 'config'
    folder.mkdir(parents=True)
    (folder / 'demo.yaml').write_text(PARAMS, encoding='utf-8')
    monkeypatch.setenv('AMENT_PREFIX_PATH', str(tmp_path / 'workspace'))
    assert options.find_params_file('demo.yaml') == folder / 'demo.yaml'


def test_the_source_tree_comes_first(tmp_path, monkeypatch):
    (tmp_path / 'config').mkdir()
    (tmp_path / 'package.xml').touch()
    (tmp_path / 'config' / 'demo.yaml').write_text(PARAMS, encoding='utf-8')
    monkeypatch.setattr(memspec_ros, '__path__', [str(tmp_path / 'memspec_ros')])
    assert options.find_params_file('demo.yaml') == tmp_path / 'config' / 'demo.yaml'


def test_a_name_found_nowhere_names_the_places(installed):
    with pytest.raises(ConfigError, match=f'params file x.yaml is neither here nor in .*'
                                          f'{installed}.*: name one with --params-file'):
        options.find_params_file('x.yaml')


def test_an_error_in_the_file_names_the_file_once(tmp_path):
    path = tmp_path / 'a.yaml'
    with pytest.raises(ConfigError, match=r'^params file .*a\.yaml cannot be read: '):
        settings(path)
    path.write_text(PARAMS.replace('queue_capacity', 'queue_capcity'), encoding='utf-8')
    with pytest.raises(ConfigError, match=r"^\S*a\.yaml: there is no parameter "
                       r"'server\.queue_capcity'; did you mean 'server\.queue_capacity'\?$"):
        settings(path)


def test_the_last_word_wins(tmp_path):
    path = tmp_path / 'a.yaml'
    path.write_text(PARAMS, encoding='utf-8')
    changed = settings(path, param=['server.queue_capacity=4', 'server.queue_capacity=5',
                                    'runtime.policy=memspec'], policy='mab_sync')
    assert changed.server.queue_capacity == 5
    assert changed.runtime.policy == 'mab_sync'
