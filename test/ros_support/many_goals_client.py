# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A client with many goals at once that cancels some, each in the state that a seed says.

Prints one JSON object per goal: id, status, error code, finish reason, numbers of texts.
"""

import json
import random
import sys
import threading

from memspec_ros.client import connect
from memspec_ros.records import GoalState, Request

MOMENTS = (None, 'at once', GoalState.QUEUED, GoalState.PREFILL, GoalState.DECODE)


class Goal:
    """One goal, and the moment at which it is canceled."""

    def __init__(self, client, number, moment, tokens):
        self.number, self.moment = number, moment
        self.num_ends = 0
        self.text = ''
        self.sent = threading.Event()
        self.generation = client.send(
            Request(prompt='a ' * 20, max_tokens=tokens, priority=number % 3),
            on_progress=self.on_progress)
        self.generation.add_done_callback(self.on_done)
        self.sent.set()
        if moment == 'at once':
            self.generation.cancel()

    def on_progress(self, progress):
        self.text += progress.delta_text
        if progress.state == self.moment:
            self.sent.wait()
            self.generation.cancel()

    def on_done(self, _generation):
        self.num_ends += 1

    def report(self):
        result = self.generation.result(120)
        return {'id': bytes(self.generation.handle.goal_id.uuid).hex(), 'moment': str(self.moment),
                'status': self.generation.status, 'finish_reason': int(result.finish_reason),
                'error_code': int(result.error_code), 'error_msg': result.error_msg,
                'ends': self.num_ends, 'joined': self.text == result.text,
                'lost_feedback': self.generation.num_lost_feedback,
                'tokens': result.completion_tokens, 'prompt_tokens': result.prompt_tokens,
                'total_s': result.durations.total_s}


def run(seed, count):
    choose = random.Random(seed)
    with connect(node_name=f'many_goals_{seed}') as client:
        goals = [Goal(client, number, choose.choice(MOMENTS), choose.randrange(2, 60))
                 for number in range(count)]
        for goal in goals:
            print(json.dumps(goal.report()), flush=True)


if __name__ == '__main__':
    run(int(sys.argv[1]), int(sys.argv[2]))
