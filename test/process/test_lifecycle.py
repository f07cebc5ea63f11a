# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Lifecycle transitions through the services, as ros2 lifecycle calls them."""

import signal

import pytest
from action_msgs.msg import GoalStatus
from lifecycle_msgs.msg import TransitionEvent
from lifecycle_msgs.srv import ChangeState, GetState

from memspec_ros.action import Generate
from memspec_ros.errors import ErrorCode
from memspec_ros.records import FinishReason
from memspec_ros.srv import GetRuntimeInfo

BY_HAND = ('-p', 'server.autostart:=false')


def refusal(peer, client):
    return peer.result(peer.send_raw(client, Generate.Goal(prompt='a', max_tokens=2))).result


def test_by_hand_through_all_states_and_back(start_node, peer):
    node = start_node('--iteration-s', 0.001, ros_args=BY_HAND)
    assert peer.state() == 'unconfigured'
    with peer.raw_client() as client:
        assert refusal(peer, client).error_code == ErrorCode.NOT_ACTIVE
        assert "the node is 'unconfigured'" in refusal(peer, client).error_msg
        for _ in range(2):
            assert not peer.change_state('activate')
            assert peer.change_state('configure')
            assert peer.state() == 'inactive'
            assert "the node is 'inactive'" in refusal(peer, client).error_msg
            assert not peer.change_state('configure')
            assert peer.change_state('activate')
            assert peer.state() == 'active'
            assert refusal(peer, client).finish_reason == FinishReason.LENGTH
            assert peer.change_state('deactivate')
            assert "the node is 'inactive'" in refusal(peer, client).error_msg
            assert peer.change_state('cleanup')
            assert "the node is 'unconfigured'" in refusal(peer, client).error_msg
    assert "transition 'activate' refused: the node is 'unconfigured', not 'inactive'" \
        in node.output
    assert peer.change_state('shutdown')
    assert peer.state() == 'finalized'
    assert node.stop()[0] == 0


def test_a_failed_configure_names_the_file_and_may_be_tried_again(start_node, peer):
    node = start_node(ros_args=('-p', 'target.model:=fake:missing'))
    node.wait_for('configure failed: target.model is fake:missing: there is no such file; get it')
    node.wait_for('The node stays up. Mend it, then: ros2 lifecycle set /memspec configure')
    peer.wait_for_state('unconfigured')
    info = peer.call(GetRuntimeInfo, 'runtime_info')
    assert info.last_error.startswith('configure failed: target.model is fake:missing')
    assert not peer.change_state('configure')
    assert peer.state() == 'unconfigured'
    assert node.stop()[0] == 0


def test_services_answer_while_a_model_loads(start_node, peer):
    node = start_node('--load-s', 60)
    node.wait_for('loading target  (12.3 MB)')
    assert peer.state() == 'configuring'
    with peer.raw_client() as client:
        assert "the node is 'configuring'" in refusal(peer, client).error_msg
    assert peer.get_parameters('runtime.cache_capacity') == [2]
    assert not peer.change_state('configure')
    node.wait_for("transition 'configure' refused: another transition is under way")


def test_deactivate_lets_goals_end_and_takes_no_more(start_node, peer):
    start_node('--iteration-s', 0.01)
    peer.wait_for_state('active')
    with peer.raw_client() as client, \
            peer.listening(TransitionEvent, '/memspec/transition_event') as events:
        handles = [peer.send_raw(client, Generate.Goal(prompt='a', max_tokens=100))
                   for _ in range(2)]
        service = peer.run(peer.node.create_client, ChangeState, '/memspec/change_state')
        assert service.wait_for_service(30)
        request = ChangeState.Request()
        request.transition.label = 'deactivate'
        pending = peer.run(service.call_async, request)
        while events.get(timeout=30).goal_state.label != 'deactivating':
            pass
        assert "the node is 'inactive'" in refusal(peer, client).error_msg
        assert [peer.result(handle).result.completion_tokens for handle in handles] == [100, 100]
        while events.get(timeout=30).goal_state.label != 'inactive':
            pass
        assert peer.future(lambda: pending).success
    assert peer.call(GetState, 'get_state').current_state.label == 'inactive'


@pytest.mark.parametrize(('transition', 'state', 'message'), [
    ('deactivate', 'inactive', 'the node was deactivated, and the goal did not end in time'),
    ('shutdown', 'finalized', 'the node is shutting down')])
def test_goals_that_do_not_end_in_time_are_ended(start_node, peer, transition, state, message):
    start_node('--iteration-s', 0.01, '--drain-limit-s', 0.1,
               ros_args=('-p', 'target.context_tokens:=200000'))
    peer.wait_for_state('active')
    with peer.raw_client() as client:
        handles = [peer.send_raw(client, Generate.Goal(prompt='a', max_tokens=100_000))
                   for _ in range(2)]
        assert peer.change_state(transition)
        for handle in handles:
            response = peer.result(handle)
            assert response.status == GoalStatus.STATUS_ABORTED
            assert response.result.error_code == ErrorCode.SHUTTING_DOWN
            assert message in response.result.error_msg
    assert peer.state() == state


def test_two_nodes_in_namespaces(start_node, peer):
    for namespace in ('/left', '/right'):
        start_node('--iteration-s', 0.001, ros_args=('-r', f'__ns:={namespace}'))
    for namespace in ('/left', '/right'):
        peer.node_name = f'{namespace}/memspec'
        peer.wait_for_state('active')
        with peer.raw_client(f'{namespace}/generate') as client:
            assert refusal(peer, client).finish_reason == FinishReason.LENGTH
        assert peer.call(GetRuntimeInfo, 'runtime_info').num_goals_ended == 1


def test_bad_arguments_end_with_a_message(start_node, tmp_path):
    broken = tmp_path / 'broken.yaml'
    broken.write_text('memspec: [', encoding='utf-8')
    node = start_node(ros_args=('--params-file', broken))
    assert node.process.wait(30) == 2
    node.wait_for('memspec node: ')
    node.wait_for('broken.yaml')


def test_sigint_before_anything(start_node):
    node = start_node()
    node.send(signal.SIGINT)
    assert node.process.wait(30) is not None
