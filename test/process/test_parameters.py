# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters through the services and in params files."""

import pytest
import yaml
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import SetParameters

from memspec_ros.config import parameter_specs
from memspec_ros.srv import GetRuntimeInfo

ROS_ARGS = ('-p', 'server.feedback_rate_hz:=7')


def test_every_setting_is_a_parameter_with_its_default(served):
    specs = list(parameter_specs())
    assert set(served.parameter_names()) >= {spec.name for spec in specs}
    values = served.get_parameters(*[spec.name for spec in specs])
    for spec, value in zip(specs, values, strict=True):
        if spec.name != 'server.feedback_rate_hz':
            assert value == ([''] if spec.default == () else spec.default)


def test_descriptors_have_types_ranges_and_tell_what_cannot_change(served):
    capacity = served.describe('runtime.cache_capacity')
    assert (capacity.type, capacity.read_only) == (ParameterType.PARAMETER_INTEGER, False)
    assert (capacity.integer_range[0].from_value, capacity.integer_range[0].to_value) == (1, 64)
    rate = served.describe('server.feedback_rate_hz')
    assert rate.type == ParameterType.PARAMETER_DOUBLE
    assert rate.floating_point_range[0].to_value == 1000.0
    model = served.describe('target.model')
    assert model.read_only
    assert model.description.endswith('Read-only: set it in the params file and start the node '
                                      'again.')
    assert 'memspec_online' in served.describe('runtime.policy').additional_constraints


def test_an_int_serves_for_a_double(served):
    assert served.get_parameters('server.feedback_rate_hz') == [7.0]
    assert served.set_parameters(server__feedback_rate_hz=30).successful
    assert served.get_parameters('server.feedback_rate_hz') == [30.0]
    assert isinstance(served.get_parameters('server.feedback_rate_hz')[0], float)


REFUSED = {
    'range': ({'runtime__cache_capacity': 100},
              'runtime.cache_capacity is 100; it must be in [1, 64]'),
    'float range': ({'server__feedback_rate_hz': 0.0},
                    'server.feedback_rate_hz is 0.0; it must be in [0.1, 1000.0]'),
    'type': ({'runtime__cache_capacity': 'two'},
             "runtime.cache_capacity is 'two' (str); it must be a int"),
    'double for an int': ({'runtime__cache_capacity': 2.5},
                          'runtime.cache_capacity is 2.5 (float); it must be a int'),
    'choice': ({'runtime__policy': 'memspec_onlin'},
               "runtime.policy is 'memspec_onlin'; it must be one of"),
    'unknown': ({'runtime__cache_capacty': 2},
                "there is no parameter 'runtime.cache_capacty'; did you mean "
                "'runtime.cache_capacity'?"),
    'together': ({'machine__shrink_below_mb': 500.0},
                 'machine.shrink_below_mb is 500.0 and machine.grow_above_mb 384.0: the first'),
    'read-only': ({'target__context_tokens': 512},
                  'target.context_tokens cannot become 512 while the node runs'),
    'runtime refuses': ({'runtime__cache_capacity': 5},
                        'runtime.cache_capacity is 5; there are 2 slots'),
}


@pytest.mark.parametrize('case', REFUSED)
def test_a_bad_value_is_refused_with_name_value_and_range(served, case):
    values, message = REFUSED[case]
    result = served.set_parameters(**values)
    assert not result.successful
    assert message in result.reason
    assert served.get_parameters('runtime.cache_capacity') == [2]


def test_a_set_is_changed_as_a_whole_or_not_at_all(served):
    before = served.get_parameters('runtime.scheduling_interval', 'runtime.cache_capacity')
    assert not served.set_parameters(runtime__scheduling_interval=9,
                                     runtime__cache_capacity=500).successful
    assert served.get_parameters('runtime.scheduling_interval',
                                 'runtime.cache_capacity') == before
    assert served.set_parameters(runtime__scheduling_interval=9,
                                 runtime__policy='mab_async').successful
    info = served.call(GetRuntimeInfo, 'runtime_info')
    assert (info.scheduling_interval, info.policy) == (9, 'mab_async')


def test_values_that_only_go_together_are_changed_together(served):
    names = ('machine.shrink_below_mb', 'machine.grow_above_mb')
    assert served.set_parameters(machine__shrink_below_mb=500.0,
                                 machine__grow_above_mb=600.0).successful
    assert served.get_parameters(*names) == [500.0, 600.0]
    assert served.set_parameters(machine__shrink_below_mb=128.0,
                                 machine__grow_above_mb=384.0).successful


def test_deleting_a_parameter_is_refused(served):
    message = SetParameters.Request()
    assert not served.set_parameters(runtime__cache_capacity=None).successful
    assert message.parameters == []
    assert served.get_parameters('runtime.cache_capacity') == [2]


def test_bad_values_in_a_params_file_fail_configure_and_are_all_named(start_node, peer, tmp_path):
    path = tmp_path / 'params.yaml'
    path.write_text(yaml.safe_dump({'/**': {'ros__parameters': {
        'runtime': {'cache_capacty': 3, 'draft_length': 99}, 'target': {'context_tokens': '2k'},
        'server': {'log_prompts': 1}, 'machine': {'warn_celsius': 120.0},
        'camera': {'frame': 'optical'}}}}), encoding='utf-8')
    node = start_node(ros_args=('--params-file', path))
    line = node.wait_for('configure failed: ')
    for problem in ("there is no parameter 'runtime.cache_capacty'; did you mean "
                    "'runtime.cache_capacity'?",
                    'runtime.draft_length is 99; it must be in [-1, 15]',
                    "target.context_tokens is '2k' (str); it must be a int",
                    'server.log_prompts is 1 (int); it must be a bool',
                    'machine.warn_celsius is 120.0 and machine.error_celsius 95.0: the first'):
        assert problem in line
    node.wait_for('[WARN]')
    assert "there is no parameter 'camera.frame'; ignored" in node.output
    assert 'camera' not in line
    peer.wait_for_state('unconfigured')


def dumped(node, values):
    """Write parameters as ``ros2 param dump`` does: names with dots become nested mappings."""
    tree = {}
    for name, value in values.items():
        *groups, leaf = name.split('.')
        branch = tree
        for group in groups:
            branch = branch.setdefault(group, {})
        branch[leaf] = list(value) if isinstance(value, (list, tuple)) else value
    return yaml.dump({node: {'ros__parameters': tree}}, default_flow_style=False)


def test_a_dump_of_a_running_node_is_a_params_file(start_node, peer, tmp_path):
    first = start_node(ros_args=('-p', 'runtime.scheduling_interval:=11',
                                 '-p', 'draft.names:=[alpha]',
                                 '-p', 'server.default_timeout_s:=3'))
    first.wait_for('active')
    names = peer.parameter_names()
    values = peer.get_parameters(*names)
    assert first.stop()[0] == 0
    path = tmp_path / 'dump.yaml'
    path.write_text(dumped('/memspec', dict(zip(names, values, strict=True))), encoding='utf-8')
    second = start_node(ros_args=('--params-file', path))
    second.wait_for('active')
    assert peer.get_parameters(*names) == values


def test_an_empty_list_in_a_params_file_is_an_empty_list(start_node, peer, tmp_path):
    path = tmp_path / 'params.yaml'
    path.write_text('/**:\n  ros__parameters:\n    draft: {names: []}\n', encoding='utf-8')
    start_node(ros_args=('--params-file', path)).wait_for('active')
    # ROS has no empty list of strings; this is what rqt and ros2 param dump can handle.
    assert peer.get_parameters('draft.names') == [['']]
    assert peer.describe('draft.names').type == ParameterType.PARAMETER_STRING_ARRAY
