# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The interface files against the records and enums that they carry; read as text, no ROS."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from memspec_ros.errors import ErrorCode
from memspec_ros.records import (
    ADAPTIVE_DRAFT_LENGTH,
    ROLES,
    ChatMessage,
    DraftState,
    DraftStatus,
    Durations,
    FinishReason,
    GoalState,
    Request,
    Residency,
    Result,
    SamplingOptions,
    Throughput,
    TimeShares,
)

ROOT = Path(__file__).resolve().parents[2]
INTERFACES = sorted(path for folder in ('action', 'msg', 'srv')
                    for path in (ROOT / folder).iterdir())
CONSTANT = re.compile(r'(?P<type>[\w/]+) (?P<name>[A-Z][A-Z0-9_]*) = "?(?P<value>\w+)"?')
FIELD = re.compile(r'(?P<type>[\w/]+(\[\])?) (?P<name>[a-z][a-z0-9_]*)( (?P<default>\S+))?')


def sections(name):
    """Return the parts of an interface file between its '---' lines, each as its lines."""
    parts = [[]]
    for line in (ROOT / name).read_text(encoding='utf-8').splitlines():
        if line == '---':
            parts.append([])
        elif line and not line.startswith('#'):
            parts[-1].append(line)
    return parts


def constants(lines, prefix=''):
    matches = [match for match in map(CONSTANT.fullmatch, lines) if match]
    return {match['name'].removeprefix(prefix): match['value'] for match in matches
            if match['name'].startswith(prefix)}


def field_defaults(lines):
    matches = [match for match in map(FIELD.fullmatch, lines) if match]
    return {match['name']: match['default'] for match in matches}


def numbers(enum):
    return {member.name: str(member.value) for member in enum}


def record_names(record):
    return {field.name for field in fields(record)}


@pytest.mark.parametrize(('name', 'section', 'prefix', 'enum'), [
    ('action/Generate.action', 1, 'ERROR_', ErrorCode),
    ('action/Generate.action', 1, 'FINISH_', FinishReason),
    ('action/Generate.action', 2, 'STATE_', GoalState),
    ('msg/DraftStatus.msg', 0, 'STATE_', DraftState),
])
def test_constants_have_the_numbers_of_the_enums(name, section, prefix, enum):
    assert constants(sections(name)[section], prefix) == numbers(enum)


def test_roles_are_those_of_the_records():
    assert tuple(constants(sections('msg/ChatMessage.msg')[0], 'ROLE_').values()) == ROLES
    assert set(field_defaults(sections('msg/ChatMessage.msg')[0])) == record_names(ChatMessage)


def test_an_empty_goal_has_the_defaults_of_a_request():
    goal = field_defaults(sections('action/Generate.action')[0])
    renamed = {'timeout_s': 'timeout'}
    assert set(goal) == {renamed.get(name, name) for name in record_names(Request)}
    assert int(goal['draft_length']) == ADAPTIVE_DRAFT_LENGTH
    assert {goal[name] for name in ('max_tokens', 'priority')} == {'0'}
    assert goal['raw_prompt'] == 'false'


def test_sampling_options_have_the_defaults_of_the_record():
    message = field_defaults(sections('msg/SamplingOptions.msg')[0])
    assert message.pop('use_seed') == 'false'
    assert message.pop('seed') == '0'
    assert {name: float(value) for name, value in message.items()} == {
        field.name: field.default for field in fields(SamplingOptions) if field.name != 'seed'}


def test_the_result_carries_all_of_the_record():
    result = set(field_defaults(sections('action/Generate.action')[1]))
    # Token ids would make results large; tokens_per_second is a property.
    expected = record_names(Result) - {'durations', 'token_ids'} | record_names(Durations)
    assert result == expected | {'tokens_per_second'}


def test_the_topics_carry_all_of_the_records():
    throughput = set(field_defaults(sections('msg/Throughput.msg')[0]))
    shares = {f'{name}_share' for name in record_names(TimeShares)}
    assert throughput == record_names(Throughput) - {'shares'} | shares | {'header',
                                                                           'queue_length'}
    assert set(field_defaults(sections('msg/DraftStatus.msg')[0])) == record_names(DraftStatus)
    # Why K shrank is in the reasons of the drafts that had to go, and in /diagnostics.
    assert set(field_defaults(sections('msg/DraftResidency.msg')[0])) == \
        record_names(Residency) - {'capacity_reason'} | {'header'}


@pytest.mark.parametrize('path', INTERFACES, ids=lambda path: path.name)
def test_every_line_is_a_constant_or_a_field(path):
    for section in sections(path):
        for line in section:
            assert CONSTANT.fullmatch(line) or FIELD.fullmatch(line), line


def test_the_build_lists_every_interface():
    text = (ROOT / 'CMakeLists.txt').read_text(encoding='utf-8')
    listed = re.findall(r'^ +((?:action|msg|srv)/\S+)$', text, re.MULTILINE)
    assert listed == [str(path.relative_to(ROOT)) for path in INTERFACES]
