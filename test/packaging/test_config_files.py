# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The params files that ship: complete, loadable, and their comments true."""

import re
from pathlib import Path

import pytest

from memspec_ros.config import Settings, parameter_specs, read_params_file
from memspec_ros.models.model_reference import resolve
from memspec_ros.models.pool import load_pool

CONFIG = Path(__file__).resolve().parents[2] / 'config'
FILES = sorted(CONFIG.glob('*.yaml'))
JETSONS = ('orin_nano.yaml', 'orin_nano_llama2.yaml', 'agx_orin.yaml')


def load(name):
    return Settings.from_parameters(read_params_file(CONFIG / name))


def comments_by_name(path):
    """Return the comment lines right above each parameter, by dotted name."""
    found, group, comment = {}, '', []
    for line in path.read_text(encoding='utf-8').splitlines():
        if match := re.fullmatch(r' {4}(\w+):', line):
            group = match[1]
        elif match := re.fullmatch(r' {6}(\w+): .+', line):
            found[f'{group}.{match[1]}'] = ' '.join(comment)
        comment = [*comment, line.strip(' #')] if line.lstrip().startswith('#') else []
    return found


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.name)
class TestEachFile:
    def test_lists_every_parameter_in_the_order_of_the_settings(self, path):
        assert list(read_params_file(path)) == [spec.name for spec in parameter_specs()]

    def test_loads(self, path):
        settings = Settings.from_parameters(read_params_file(path))
        assert settings.as_parameters().keys() == read_params_file(path).keys()

    def test_writes_each_value_in_the_type_of_its_parameter(self, path):
        # An int for a double is accepted, but `ros2 param dump` would not give it back so.
        values = read_params_file(path)
        for spec in parameter_specs():
            wanted = list if isinstance(spec.default, tuple) else type(spec.default)
            assert type(values[spec.name]) is wanted, spec.name

    def test_marks_as_live_what_may_change_while_serving(self, path):
        live = {name for name, comment in comments_by_name(path).items()
                if comment.startswith('live')}
        assert live == {spec.name for spec in parameter_specs() if spec.dynamic}


@pytest.mark.parametrize(('name', 'cache_capacity'), [('orin_nano.yaml', 2),
                                                      ('orin_nano_llama2.yaml', 2),
                                                      ('agx_orin.yaml', 4)])
def test_a_jetson_keeps_some_of_five_drafts_for_its_target(name, cache_capacity):
    settings = load(name)
    pool = load_pool(resolve(settings.draft.pool))
    assert pool.target == settings.target.model
    assert [draft.domain for draft in pool.drafts] == ['general', 'code', 'math', 'law',
                                                       'medical']
    assert (settings.runtime.cache_capacity, settings.runtime.scheduling_interval) == \
        (cache_capacity, 4)
    assert settings.target.device == 'cuda'


def test_the_demo_is_the_defaults_with_a_model():
    changed = {name for name, value in load('demo.yaml').as_parameters().items()
               if value != Settings().as_parameters()[name]}
    assert changed <= {'target.model', 'draft.pool'}
