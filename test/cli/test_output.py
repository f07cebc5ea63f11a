# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which results count as a success, and how their figures read."""

import pytest

from memspec_ros.cli.output import committed_per_iteration, succeeded, summary
from memspec_ros.errors import ErrorCode
from memspec_ros.records import FinishReason, Result


@pytest.mark.parametrize(('reason', 'code', 'expected'), [
    (FinishReason.STOP, ErrorCode.NONE, True),
    (FinishReason.LENGTH, ErrorCode.NONE, True),
    (FinishReason.CONTEXT, ErrorCode.NONE, True),
    (FinishReason.CANCELED, ErrorCode.NONE, False),
    (FinishReason.TIMEOUT, ErrorCode.TIMEOUT, False),
    (FinishReason.ERROR, ErrorCode.INTERNAL, False),
    (FinishReason.LENGTH, ErrorCode.OUT_OF_MEMORY, False)])
def test_success(reason, code, expected):
    assert succeeded(Result(finish_reason=reason, error_code=code)) is expected


def test_a_goal_that_did_nothing_has_figures_too():
    assert committed_per_iteration(Result()) == 0.0
    assert summary(Result()).startswith('0 tokens in 0.00 s; 0.0 tokens/s decoding; 0.00 comm')
