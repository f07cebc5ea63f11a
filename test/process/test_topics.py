# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Topics and services of a node that serves."""

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_srvs.srv import Trigger

import memspec_ros
from memspec_ros.action import Generate
from memspec_ros.errors import ErrorCode
from memspec_ros.msg import ChatMessage, DraftResidency, DraftStatus, Throughput
from memspec_ros.srv import CountTokens, GetRuntimeInfo

NODE_OPTIONS = ('--iteration-s', 0.001)
ROS_ARGS = ('-p', 'target.model:=fake:model', '-p', 'machine.thermal_folder:=/nonexistent')
LATCHED = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE,
                     durability=DurabilityPolicy.TRANSIENT_LOCAL)


def test_qos(served):
    with served.listening(Throughput, '/memspec/throughput') as messages:
        messages.get(timeout=30)
        throughput = served.node.get_publishers_info_by_topic('/memspec/throughput')[0]
        residency = served.node.get_publishers_info_by_topic('/memspec/draft_residency')[0]
    assert throughput.qos_profile.reliability == ReliabilityPolicy.RELIABLE
    assert throughput.qos_profile.durability == DurabilityPolicy.VOLATILE
    assert residency.qos_profile.reliability == ReliabilityPolicy.RELIABLE
    assert residency.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL


def test_throughput_has_every_figure(served):
    with served.listening(Throughput, '/memspec/throughput') as messages:
        first, second = messages.get(timeout=30), messages.get(timeout=30)
    assert (first.tokens_per_second, first.acceptance, first.draft_length) == (50.0, 0.5, 3.0)
    assert (first.rss_bytes, first.available_bytes, first.queue_length) == (10**8, 10**9, 0)
    assert first.header.stamp != second.header.stamp


def test_a_late_subscriber_gets_the_residency_as_it_is_and_then_each_change(served):
    with served.listening(DraftResidency, '/memspec/draft_residency', LATCHED) as messages:
        first = messages.get(timeout=30)
        assert [draft.name for draft in first.drafts] == ['alpha', 'beta']
        assert first.drafts[0].state == DraftStatus.STATE_ACTIVE
        assert (first.active_draft, first.cache_capacity) == ('alpha', 2)
        assert (first.drafts[1].state, first.drafts[1].reason) == (DraftStatus.STATE_LOADING,
                                                                   'prefetched')
        with served.raw_client() as client:
            served.result(served.send_raw(client, Generate.Goal(prompt='a', max_tokens=20)))
        assert messages.get(timeout=30).drafts[1].state == DraftStatus.STATE_RESIDENT


def test_diagnostics(served):
    with served.listening(DiagnosticArray, '/diagnostics') as messages:
        status = {one.name: one for one in messages.get(timeout=30).status}
    assert set(status) == {f'memspec: {name}' for name in (
        'lifecycle', 'goal queue', 'drafts', 'speculation', 'memory')}
    assert {one.level for one in status.values()} == {DiagnosticStatus.OK}
    assert {one.hardware_id for one in status.values()} == {'memspec'}
    assert status['memspec: lifecycle'].message == 'active'
    values = {pair.key: pair.value for pair in status['memspec: goal queue'].values}
    assert values['queue_capacity'] == '16'


def test_diagnostics_say_why_configure_failed(start_node, peer):
    start_node(ros_args=('-p', 'target.model:=fake:missing')).wait_for('The node stays up')
    with peer.listening(DiagnosticArray, '/diagnostics') as messages:
        status = messages.get(timeout=30).status[0]
    assert status.level == DiagnosticStatus.ERROR
    assert 'target.model is fake:missing' in status.message


def test_runtime_info(served):
    info = served.call(GetRuntimeInfo, 'runtime_info')
    assert (info.version, info.state, info.last_error) == (memspec_ros.__version__, 'active', '')
    assert (info.target_model, info.architecture) == ('fake:model', 'fake')
    assert (info.context_tokens, info.vocab_size) == (2048, 100)
    assert list(info.drafts) == ['alpha', 'beta']
    assert (info.memory[0].name, info.memory[0].num_bytes) == ('target weights', 12_300_000)
    assert info.queue_capacity == 16
    assert info.residency.active_draft == 'alpha'


@pytest.mark.parametrize(('fields', 'count'), [
    ({'prompt': 'one two three'}, 3), ({'prompt': 'one two', 'raw_prompt': True}, 2),
    ({'messages': [ChatMessage(role='user', content='one'),
                   ChatMessage(role='assistant', content='two')]}, 2)])
def test_count_tokens(served, fields, count):
    response = served.call(CountTokens, 'count_tokens', **fields)
    assert (response.prompt_tokens, response.error_code) == (count, ErrorCode.NONE)
    assert response.context_tokens == 2048


def test_count_tokens_says_what_is_wrong(served):
    response = served.call(CountTokens, 'count_tokens')
    assert response.error_code == ErrorCode.INVALID_GOAL
    assert response.error_msg == 'the goal is empty: give a prompt or messages'


def test_reset(served):
    response = served.call(Trigger, 'reset')
    assert response.success
    assert response.message == 'the draft cache and the kept prefix are forgotten now'


def test_services_before_configure(start_node, peer):
    start_node(ros_args=('-p', 'server.autostart:=false'))
    info = peer.call(GetRuntimeInfo, 'runtime_info')
    assert (info.state, info.target_model) == ('unconfigured', '')
    assert not peer.call(Trigger, 'reset').success
    count = peer.call(CountTokens, 'count_tokens', prompt='a')
    assert count.error_code == ErrorCode.NOT_ACTIVE
    assert count.error_msg == "no model is loaded: the node is 'unconfigured'"
