#!/usr/bin/env python3
# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A py_trees behaviour that asks the model, and takes its question back when it is halted.

As a program it ticks a small tree: the robot thinks aloud about a question, until something more
important comes. Needs py_trees (`ros-$ROS_DISTRO-py-trees`, or `pip install py_trees`) and a node
that serves `generate`.
"""

from __future__ import annotations

import sys
import time

import py_trees
from py_trees.common import Access, Status

from memspec_ros.client import GenerateClient, Generation, ServerLostError, connect
from memspec_ros.errors import ErrorCode
from memspec_ros.records import Request


class Generate(py_trees.behaviour.Behaviour):
    """Sends a goal when it begins, and writes the answer to the blackboard when it succeeds.

    A tick never waits. When the behaviour is halted, because its branch was left for another, the
    goal is cancelled: the robot does not go on computing what nobody reads.

    :param client: sends the goal; whoever made it spins its executor.
    :param request: what to ask; a str is a prompt.
    :param key: blackboard key that gets the text.
    """

    def __init__(self, name: str, client: GenerateClient, request: Request | str, *,
                 key: str = 'answer') -> None:
        super().__init__(name)
        self._client = client
        self._request = Request(prompt=request) if isinstance(request, str) else request
        self._key = key
        self._blackboard = self.attach_blackboard_client(name=name)
        self._blackboard.register_key(key=key, access=Access.WRITE)
        self.generation: Generation | None = None

    def initialise(self) -> None:
        """Send the goal; py_trees calls this at the first tick after another status."""
        self.generation = self._client.send(self._request)

    def update(self) -> Status:
        """Look whether the answer is there."""
        assert self.generation is not None
        if not self.generation.done():
            self.feedback_message = 'waiting for the answer'
            return Status.RUNNING
        try:
            result = self.generation.result(0)
        except ServerLostError as error:
            self.feedback_message = str(error)
            return Status.FAILURE
        if result.error_code != ErrorCode.NONE:
            self.feedback_message = f'{result.error_code.name}: {result.error_msg}'
            return Status.FAILURE
        self._blackboard.set(self._key, result.text)
        self.feedback_message = f'{result.completion_tokens} tokens'
        return Status.SUCCESS

    def terminate(self, new_status: Status) -> None:
        """Cancel the goal if the behaviour was halted."""
        halted = new_status is Status.INVALID
        if halted and self.generation is not None and not self.generation.done():
            self.generation.cancel()


def make_tree(client: GenerateClient, question: str, *,
              urgent: py_trees.behaviour.Behaviour) -> py_trees.behaviour.Behaviour:
    """Return a tree that asks while nothing urgent is to be done.

    Without memory the first child is looked at in each tick, so it can take over at any time.
    """
    root = py_trees.composites.Selector(name='robot', memory=False)
    root.add_children([urgent, Generate('ask', client, question)])
    return root


def main() -> int:
    """Ask what the command line says; 0 when there is an answer."""
    question = ' '.join(sys.argv[1:]) or 'Name three checks before a robot arm moves.'
    with connect() as client:
        tree = make_tree(client, question, urgent=py_trees.behaviours.Failure(name='urgent'))
        tree.tick_once()
        while tree.status is Status.RUNNING:
            time.sleep(0.1)
            tree.tick_once()
    answer = py_trees.blackboard.Blackboard.storage.get('/answer', '')
    print(answer or tree.tip().feedback_message)
    return 0 if tree.status is Status.SUCCESS else 1


if __name__ == '__main__':
    sys.exit(main())
