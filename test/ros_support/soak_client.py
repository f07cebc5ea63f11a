# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A client of the soak: sends goals of all kinds, a few at a time, and reports how each ended.

Reads commands on stdin, ``run NUMBER SEED``; prints a JSON object per goal and ``done`` at the end
of a command. It leaves when stdin is closed.
"""

import json
import random
import sys
import threading

from memspec_ros.client import connect
from memspec_ros.errors import ErrorCode
from memspec_ros.records import ChatMessage, GoalState, Request, SamplingOptions

MOMENTS = (None, None, None, 'at once', GoalState.QUEUED, GoalState.PREFILL, GoalState.DECODE)
MAX_IN_FLIGHT = 3
LIMIT_S = 300
BACK_OFF_S = 5.0
WORDS = ('robot', 'arm', 'cup', 'door', 'red', 'table', 'lift', 'turn', 'move', 'to', 'the', 'and')


def random_request(choose):
    """Return a goal; some cannot be served, and must say so."""
    text = ' '.join(choose.choices(WORDS, k=choose.randrange(1, 60)))
    kind = choose.random()
    options = {
        'max_tokens': choose.randrange(1, 120), 'priority': choose.randrange(-2, 3),
        'timeout_s': choose.choice((0.0, 0.0, 0.0, 0.05, 1.0, 20.0)),
        'stop': ('qq',) if choose.random() < 0.2 else (),
        'draft_hint': choose.choice((*[''] * 15, 'code', 'code', 'ngram', 'ngram', 'nobody')),
        'draft_length': choose.choice((-1, -1, 0, 3)),
        'sampling': SamplingOptions(temperature=choose.choice((0.0, 0.9)), top_p=0.9)}
    if kind < 0.05:
        options['max_tokens'] = 5000
    if kind < 0.5:
        return Request(prompt=text, **options)
    return Request(messages=(ChatMessage(role='system', content='You are a robot. ' * 8),
                             ChatMessage(role='user', content=text)), **options)


class Goal:
    """One goal, and the moment at which it is cancelled."""

    def __init__(self, client, choose, room):
        self.moment = choose.choice(MOMENTS)
        self.num_ends = 0
        self.text = ''
        self._room = room
        self._sent = threading.Event()
        self.ended = threading.Event()
        self.generation = client.send(random_request(choose), on_progress=self._on_progress)
        self.generation.add_done_callback(self._on_done)
        self._sent.set()
        if self.moment == 'at once':
            self.generation.cancel()

    def _on_progress(self, progress):
        self.text += progress.delta_text
        if progress.state == self.moment:
            self._sent.wait()
            self.generation.cancel()

    def _on_done(self, generation):
        self.num_ends += 1
        self.ended.set()
        if generation.result(0).error_code is ErrorCode.NOT_ACTIVE:
            # A robot asks again later; at once, all goals would be spent on refusals.
            threading.Timer(BACK_OFF_S, self._room.release).start()
        else:
            self._room.release()

    def report(self):
        """Wait for the end and return what the client saw of it."""
        assert self.ended.wait(LIMIT_S), 'a goal did not end'
        result = self.generation.result(0)
        return {'id': bytes(self.generation.handle.goal_id.uuid).hex(), 'ends': self.num_ends,
                'status': self.generation.status, 'finish_reason': result.finish_reason.name,
                'error_code': result.error_code.name, 'error_msg': result.error_msg,
                'total_s': result.durations.total_s, 'joined': self.text == result.text}


def run(client, number, seed):
    """Send goals, a few at a time, and print how each ended."""
    choose = random.Random(seed)
    room = threading.Semaphore(MAX_IN_FLIGHT)
    goals = []
    for _ in range(number):
        room.acquire()
        goals.append(Goal(client, choose, room))
        while goals and goals[0].ended.is_set():
            print(json.dumps(goals.pop(0).report()), flush=True)
    for goal in goals:
        print(json.dumps(goal.report()), flush=True)
    print('done', flush=True)


if __name__ == '__main__':
    with connect(node_name=f'soak_client_{sys.argv[1]}', server_wait_s=60) as connected:
        print('ready', flush=True)
        for line in sys.stdin:
            run(connected, *map(int, line.split()[1:]))
