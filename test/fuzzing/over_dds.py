# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Goals over real DDS, to a node in a process of its own."""

import contextlib
import queue

from goals import GOALS
from guard import Guard, run_cases
from node_process import FAKE_NODE, ProcessUnderTest
from peer import Peer

from memspec_ros.action import Generate
from memspec_ros.errors import ErrorCode, MemSpecError

ENDED = (4, 5, 6)
MAX_TOKENS = 4
NUM_ATTEMPTS = 6
START_LIMIT_S = 120


class UnendedError(Exception):
    """A goal did not end as it must."""


def fuzz_goals_over_dds(num_cases, seed):
    """Send goals one after the other; each must end, and say why when it failed."""
    guard = Guard(limit_memory=False)
    node = ProcessUnderTest(FAKE_NODE)
    peer = Peer()
    try:
        node.wait_for('active', START_LIMIT_S)
        with peer.raw_client() as client:
            _meet(peer, client)

            def run(goal):
                # What is fuzzed is the way, not the time that an answer takes.
                goal.max_tokens = min(goal.max_tokens, MAX_TOKENS) or 1
                with guard.case(lambda: repr(goal)):
                    _check(peer.result(peer.send_raw(client, goal)))
            with guard.watching():
                run_cases(GOALS, num_cases, run, seed)
        if node.process.poll() is not None or 'Traceback' in node.output:
            guard.failures.append(f'the node: {node.output[-300:]}')
    finally:
        node.kill()
        peer.close()
    return guard


def _meet(peer, client):
    """Send goals until one is answered: before both sides have met, requests may be lost."""
    for _ in range(NUM_ATTEMPTS):
        with contextlib.suppress(queue.Empty):
            handle = peer.future(lambda: client.send_goal_async(Generate.Goal(prompt='a')), 5)
            peer.future(handle.get_result_async, 5)
            return
    raise UnendedError('the node answers no goal')


def _check(response):
    result = response.result
    if response.status not in ENDED or not result.finish_reason:
        raise UnendedError(f'status {response.status}, finish reason {result.finish_reason}')
    unsaid = bool(result.error_code) != bool(result.error_msg)
    if result.error_code == ErrorCode.INTERNAL or unsaid:
        raise UnendedError(f'error {result.error_code}: {result.error_msg!r}')
    if result.error_code:
        raise MemSpecError(result.error_msg)
