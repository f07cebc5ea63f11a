# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The client helper against a node in another process."""

import asyncio
import signal

import pytest
from domain import ros_environment

from memspec_ros.client import GenerateClient, ServerLostError, connect, generate_client
from memspec_ros.errors import ErrorCode
from memspec_ros.records import FinishReason, GoalState, Request

NODE_OPTIONS = ('--iteration-s', 0.002)
ROS_ARGS = ('-p', 'target.context_tokens:=100000')
ANSWER = 'w0 w1 w2 w3 '


@pytest.fixture
def client(served):
    with ros_environment(served.domain), connect() as client:
        yield client


def test_result_deltas_and_progress(client):
    seen = []
    generation = client.send(Request(prompt='one', max_tokens=4), on_progress=seen.append)
    assert ''.join(generation.deltas()) == ANSWER
    assert generation.result(30).text == ANSWER
    assert ''.join(progress.delta_text for progress in seen) == ANSWER
    assert {progress.state for progress in seen} == set(GoalState)


def test_under_asyncio(client):
    async def ask():
        deltas = [delta async for delta in client.send(Request(prompt='a', max_tokens=4)).stream()]
        return ''.join(deltas), (await client.send(Request(prompt='b', max_tokens=2))).text

    assert asyncio.run(ask()) == (ANSWER, 'w0 w1 ')


def test_awaited_in_a_callback_of_the_same_executor(served):
    """What spinning in a callback breaks: the node goes on, and the result comes."""
    client = served.run(GenerateClient, served.node)

    async def ask():
        texts = [(await client.send(Request(prompt='a', max_tokens=count))).text
                 for count in (4, 2)]
        return ''.join(texts)

    task = served._executor.create_task(ask())
    assert served.future(lambda: task) == f'{ANSWER}w0 w1 '
    served.run(client.destroy)


def test_cancel_from_a_callback(client):
    def cancel_when_decoding(progress):
        if progress.state is GoalState.DECODE:
            generation.cancel()

    generation = client.send(Request(prompt='a', max_tokens=99_000),
                             on_progress=cancel_when_decoding)
    result = generation.result(30)
    assert (result.finish_reason, result.error_code) == (FinishReason.CANCELED, ErrorCode.CANCELED)


def test_a_refusal_is_a_result(client):
    result = client.send(Request(prompt='a', draft_hint='omega')).result(30)
    assert (result.finish_reason, result.error_code) == (FinishReason.ERROR,
                                                         ErrorCode.UNKNOWN_DRAFT)


def test_a_burst_of_goals_loses_none(client):
    generations = [client.send(Request(prompt='a', max_tokens=2)) for _ in range(60)]
    codes = [generation.result(30).error_code for generation in generations]
    # One runs, 16 wait at most, and the others are told so.
    assert set(codes) <= {ErrorCode.NONE, ErrorCode.QUEUE_FULL}
    assert codes.count(ErrorCode.NONE) >= 17


def test_a_goal_waits_for_its_server(start_node):
    with connect() as client:
        generation = client.send(Request(prompt='a', max_tokens=4))
        node = start_node(ros_args=('-p', 'server.autostart:=false'))
        assert generation.result(30).error_code == ErrorCode.NOT_ACTIVE
        assert node.stop()[0] == 0


def test_no_server(ros_domain):  # noqa: ARG001
    with connect(server_wait_s=0.5) as client, pytest.raises(
            ServerLostError, match=r"no node serves the action 'generate': none came in 0.5 s"):
        client.send(Request(prompt='a')).result(30)


def test_a_server_that_was_killed_and_started_again_does_not_know_the_goal(start_node,
                                                                           monkeypatch):
    monkeypatch.setattr(generate_client, 'PROBE_AFTER_S', 0.5)
    node = start_node('--iteration-s', 0.01, ros_args=ROS_ARGS)
    node.wait_for('active')
    with connect() as client:
        generation = client.send(Request(prompt='a', max_tokens=99_000))
        for _ in generation.deltas():
            break
        node.send(signal.SIGKILL)
        start_node('--iteration-s', 0.01).wait_for('active')
        with pytest.raises(ServerLostError, match='the server does not know the goal'):
            generation.result(30)
        assert client.send(Request(prompt='a', max_tokens=4)).result(30).text == ANSWER


def test_a_client_that_is_destroyed_fails_its_goals(served):
    with ros_environment(served.domain), connect() as client:
        generation = client.send(Request(prompt='a', max_tokens=99_000))
        for _ in generation.deltas():
            break
    with pytest.raises(ServerLostError, match='the client was destroyed'):
        generation.result(30)
