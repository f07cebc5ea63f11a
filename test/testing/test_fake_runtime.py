# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The fake runtime keeps the contract of the real one."""

import pytest

from memspec_ros.config import Settings
from memspec_ros.errors import BudgetError, ErrorCode, ModelNotFoundError, RequestError
from memspec_ros.records import DraftState, FinishReason, GoalState, Request
from memspec_ros.testing.fake_runtime import FakeScript


@pytest.fixture
def runtime():
    return FakeScript().open(Settings(), report=lambda _: None)


def answer(runtime, should_stop=lambda: None, **fields):
    seen = []
    result = runtime.generate(runtime.prepare(Request(**fields)), on_progress=seen.append,
                              should_stop=should_stop)
    return result, seen


def test_joined_deltas_are_the_text(runtime):
    result, seen = answer(runtime, prompt='a b', max_tokens=5)
    assert ''.join(progress.delta_text for progress in seen) == result.text == 'w0 w1 w2 w3 w4 '
    assert (result.finish_reason, result.prompt_tokens, result.completion_tokens) == (
        FinishReason.LENGTH, 2, 5)
    assert seen[0].state is GoalState.PREFILL


def test_stops_in_prefill_and_decode(runtime):
    result, _ = answer(runtime, prompt='a', should_stop=lambda: FinishReason.CANCELED)
    assert (result.finish_reason, result.text) == (FinishReason.CANCELED, '')
    asked = iter([None, None, FinishReason.TIMEOUT])
    result, _ = answer(runtime, prompt='a', should_stop=lambda: next(asked))
    assert (result.finish_reason, result.completion_tokens) == (FinishReason.TIMEOUT, 4)


@pytest.mark.parametrize(('fields', 'code'), [
    ({'max_tokens': 5000}, ErrorCode.CONTEXT_EXCEEDED),
    ({'draft_hint': 'x'}, ErrorCode.UNKNOWN_DRAFT)])
def test_refusals(runtime, fields, code):
    with pytest.raises(RequestError) as caught:
        runtime.prepare(Request(prompt='a', **fields))
    assert caught.value.code is code


def test_a_prompt_that_raises(runtime):
    with pytest.raises(RuntimeError, match='raise me'):
        answer(runtime, prompt='raise me')


def test_a_missing_model():
    settings = Settings.from_parameters({'target.model': 'fake:missing'})
    lines = []
    with pytest.raises(ModelNotFoundError, match='there is no such file; get it with'):
        FakeScript().open(settings, report=lines.append)
    assert lines == ['loading target fake:missing (12.3 MB)']


def test_snapshots_and_settings(runtime):
    assert runtime.residency().drafts[1].state is DraftState.LOADING
    answer(runtime, prompt='a', max_tokens=2)
    assert runtime.residency().drafts[1].state is DraftState.RESIDENT
    assert runtime.count_tokens('a b c') == 3
    runtime.apply(Settings.from_parameters({'runtime.policy': 'mab_sync'}))
    assert runtime.info().policy == 'mab_sync'
    with pytest.raises(BudgetError, match='cache_capacity is 9; there are 2 slots'):
        runtime.apply(Settings.from_parameters({'runtime.cache_capacity': 9}))
    assert runtime.info().policy == 'mab_sync'
