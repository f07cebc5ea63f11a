# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A client of scripts/overhead: streams goals and measures, in a process of its own.

Reads a JSON object per line on stdin, the fields of a goal and what to do; prints one for each.
"""

import json
import sys
import threading
import time

from memspec_ros.client import connect
from memspec_ros.records import ChatMessage, GoalState, Request

LIMIT_S = 300


class Stream:
    """One goal; its feedback as it comes, and the seconds of what happens to it.

    :param cancel_at: tokens after which it is cancelled; 0 lets it end.
    """

    def __init__(self, client, request, cancel_at):
        self._cancel_at = cancel_at
        self._sent = threading.Event()
        self.text = ''
        self.tokens = []
        self.started_s = time.perf_counter()
        self.canceled_s = self.ended_s = 0.0
        self.generation = client.send(request, on_progress=self._on_progress)
        self._ended = threading.Event()
        self.generation.add_done_callback(self._on_done)
        self._sent.set()

    def _on_progress(self, progress):
        self.text += progress.delta_text
        if progress.state is GoalState.DECODE:
            self.tokens.append(progress.completion_tokens)
        if self._cancel_at and progress.completion_tokens >= self._cancel_at \
                and not self.canceled_s:
            self._sent.wait()
            self.canceled_s = time.perf_counter()
            self.generation.cancel()

    def _on_done(self, _generation):
        self.ended_s = time.perf_counter()
        self._ended.set()

    def report(self):
        """Wait for the end and return what was measured."""
        assert self._ended.wait(LIMIT_S), 'a goal did not end'
        result = self.generation.result(0)
        durations = result.durations
        return {
            'finish_reason': result.finish_reason.name, 'error': result.error_msg,
            'tokens': result.completion_tokens, 'iterations': result.iterations,
            'decode_s': durations.decode_s, 'first_token_s': durations.first_token_s,
            'total_s': durations.total_s, 'reused_tokens': result.reused_tokens,
            'prompt_tokens': result.prompt_tokens, 'wall_s': self.ended_s - self.started_s,
            'cancel_s': self.ended_s - self.canceled_s if self.canceled_s else None,
            'num_feedback': len(self.tokens), 'in_order': self.tokens == sorted(self.tokens),
            'lost_feedback': self.generation.num_lost_feedback,
            'joined': self.text == result.text}


def request_from(order):
    """Return the goal that an order describes."""
    messages = (ChatMessage(role='system', content=order['system']),) if order['system'] else ()
    return Request(messages=(*messages, ChatMessage(role='user', content=order['prompt'])),
                   max_tokens=order['max_tokens'])


if __name__ == '__main__':
    with connect(node_name='overhead_client', server_wait_s=60) as connected:
        print('ready', flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            print(json.dumps(Stream(connected, request_from(asked),
                                    asked['cancel_at']).report()), flush=True)
