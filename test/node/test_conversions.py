# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Messages and values say the same."""

import dataclasses
from enum import IntEnum

import pytest
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus

from memspec_ros.action import Generate
from memspec_ros.errors import ErrorCode, RequestError
from memspec_ros.msg import ChatMessage as ChatMessageMessage
from memspec_ros.msg import DraftStatus as DraftStatusMessage
from memspec_ros.node import conversions
from memspec_ros.node.health import Check
from memspec_ros.records import (
    ROLES,
    ChatMessage,
    DraftState,
    DraftStatus,
    Durations,
    FinishReason,
    GoalState,
    Health,
    Progress,
    Request,
    Residency,
    Result,
    RuntimeInfo,
    SamplingOptions,
    Throughput,
    TimeShares,
)
from memspec_ros.srv import GetRuntimeInfo


@pytest.mark.parametrize(('enum', 'message', 'prefix'), [
    (ErrorCode, Generate.Result, 'ERROR_'), (FinishReason, Generate.Result, 'FINISH_'),
    (GoalState, Generate.Feedback, 'STATE_'), (DraftState, DraftStatusMessage, 'STATE_')])
def test_constants_have_the_numbers_of_the_enums(enum: type[IntEnum], message, prefix):
    constants = {name[len(prefix):]: getattr(message, name) for name in dir(type(message))
                 if name.startswith(prefix)}
    assert constants == {member.name: member.value for member in enum}


def test_roles_are_those_of_the_message():
    assert {getattr(ChatMessageMessage, f'ROLE_{role.upper()}') for role in ROLES} == set(ROLES)


REQUESTS = [
    Request(prompt='one'),
    Request(prompt='raw', raw_prompt=True, max_tokens=7, stop=('a', 'b'), timeout_s=2.25,
            priority=-3, draft_hint='alpha', draft_length=4),
    Request(messages=(ChatMessage(role='system', content='x'),
                      ChatMessage(role='user', content='y')),
            sampling=SamplingOptions(temperature=0.5, top_p=0.25, top_k=40, min_p=0.125,
                                     repetition_penalty=1.5, seed=2**64 - 1)),
    Request(prompt='seed 0', sampling=SamplingOptions(seed=0)),
]


@pytest.mark.parametrize('request_', REQUESTS)
def test_a_request_survives_the_way_to_the_server(request_):
    assert conversions.request_from_goal(conversions.goal_from_request(request_)) == request_


def test_the_defaults_of_the_goal_are_those_of_the_request():
    assert conversions.request_from_goal(Generate.Goal(prompt='a')) == Request(prompt='a')


def test_a_bad_goal_is_refused():
    with pytest.raises(RequestError, match='the goal is empty'):
        conversions.request_from_goal(Generate.Goal())


def distinct(kind, **fields):
    """A record whose number fields all differ, so that swapped fields show."""
    for number, field in enumerate(dataclasses.fields(kind), start=1):
        if field.name not in fields and field.type in ('int', 'float'):
            fields[field.name] = number if field.type == 'int' else number / 64
    return kind(**fields)


def test_a_result_survives_the_way_to_the_client():
    result = distinct(Result, text='text', error_msg='why', error_code=ErrorCode.TIMEOUT,
                      finish_reason=FinishReason.TIMEOUT, drafts_used=('a', 'b'),
                      durations=distinct(Durations))
    message = conversions.result_to_message(result)
    assert conversions.result_from_message(message) == result
    assert message.tokens_per_second == result.tokens_per_second


def test_progress_survives_the_way_to_the_client():
    progress = distinct(Progress, state=GoalState.DECODE, delta_text='d', active_draft='alpha')
    message = conversions.progress_to_message(progress, seq=5, queue_position=3)
    assert conversions.progress_from_message(message) == progress
    assert (message.seq, message.queue_position) == (5, 3)


@pytest.mark.parametrize(('text', 'shown'), [
    ('a\0b', 'a\N{REPLACEMENT CHARACTER}b'), ('lone \ud800 surrogate', 'lone ? surrogate'),
    ('grüße 🤖', 'grüße 🤖')])
def test_what_no_string_can_hold_is_replaced(text, shown):
    message = conversions.result_to_message(Result(text=text, error_msg=text))
    assert (message.text, message.error_msg) == (shown, shown)
    assert conversions.progress_to_message(
        Progress(state=GoalState.DECODE, delta_text=text), seq=0).delta_text == shown


def test_residency():
    draft = DraftStatus(name='alpha', domain='code', state=DraftState.LOADING, num_bytes=5,
                        score=0.5, in_working_set=True, reason='prefetch')
    stamp = Time(sec=9)
    message = conversions.residency_to_message(
        Residency(drafts=(draft,), cache_capacity=2, resident_bytes=3, budget_bytes=4,
                  active_draft='beta'), stamp)
    for field in dataclasses.fields(draft):
        assert getattr(message.drafts[0], field.name) == getattr(draft, field.name)
    assert (message.cache_capacity, message.resident_bytes, message.budget_bytes,
            message.active_draft, message.header.stamp) == (2, 3, 4, 'beta', stamp)


def test_throughput():
    shares = distinct(TimeShares)
    throughput = distinct(Throughput, shares=shares)
    message = conversions.throughput_to_message(throughput, Time(), queue_length=77)
    for field in dataclasses.fields(throughput):
        if field.name != 'shares':
            assert getattr(message, field.name) == getattr(throughput, field.name)
    for field in dataclasses.fields(shares):
        assert getattr(message, f'{field.name}_share') == getattr(shares, field.name)
    assert message.queue_length == 77


def test_runtime_info():
    info = distinct(RuntimeInfo, target_model='m', architecture='a', dtype='d', device='c',
                    has_chat_template=True, policy='p', drafts=('x', 'y'),
                    memory=(('weights', 8),))
    response = GetRuntimeInfo.Response()
    conversions.fill_runtime_info(response, info, Residency(active_draft='x'), Time())
    for field in dataclasses.fields(info):
        value = getattr(response, field.name)
        if field.name == 'memory':
            assert [(item.name, item.num_bytes) for item in value] == [('weights', 8)]
        else:
            assert (tuple(value) if field.name == 'drafts' else value) == getattr(info, field.name)
    assert response.residency.active_draft == 'x'


def test_check():
    status = conversions.check_to_status(
        Check(name='memory', level=Health.WARN, message='little', values={'free_mb': 3}),
        node_name='robot/memspec')
    assert (status.level, status.name, status.message) == (
        DiagnosticStatus.WARN, 'robot/memspec: memory', 'little')
    assert [(pair.key, pair.value) for pair in status.values] == [('free_mb', '3')]
