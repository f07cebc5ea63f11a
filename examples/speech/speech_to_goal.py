#!/usr/bin/env python3
# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A node that turns what a speech recogniser heard into goals, and what comes back into sentences.

Subscribes to `speech_text` and publishes `answer` (std_msgs/String), one sentence at a time, so
that a voice can begin before the answer is complete. What is said next takes the floor: the answer
that is under way is cancelled. Saying only `stop` cancels and asks nothing.
"""

from __future__ import annotations

import contextlib
import re
import sys

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from std_msgs.msg import String

from memspec_ros.client import GenerateClient, Generation
from memspec_ros.records import ChatMessage, Progress, Request

STOP_WORDS = ('stop', 'stop.', 'halt', 'halt.')
SENTENCE_END = re.compile(r'(?<=[.!?])\s+')


class Conversation(Node):
    """All in the executor's thread; callbacks return at once."""

    def __init__(self, **node_arguments: object) -> None:
        super().__init__('speech_to_goal', **node_arguments)
        self.declare_parameter('system_prompt', 'You are a robot. Answer in one or two sentences.')
        self.declare_parameter('max_tokens', 96)
        self.declare_parameter('priority', 0)
        self._client = GenerateClient(self)
        self._current: Generation | None = None
        self._unsaid = ''
        self._answer = self.create_publisher(String, 'answer', 10)
        self.create_subscription(String, 'speech_text', self._hear, 10)

    def _hear(self, message: String) -> None:
        """Take what was heard; what is being answered is out of date."""
        if self._current is not None:
            self._current.cancel()
        self._current, self._unsaid = None, ''
        words = message.data.strip()
        if words and words.lower() not in STOP_WORDS:
            self._ask(words)

    def _ask(self, words: str) -> None:
        generation = self._client.send(
            Request(max_tokens=self.get_parameter('max_tokens').value,
                    priority=self.get_parameter('priority').value,
                    messages=(ChatMessage(role='system',
                                          content=self.get_parameter('system_prompt').value),
                              ChatMessage(role='user', content=words))),
            on_progress=lambda progress: self._take(generation, progress))
        self._current = generation
        generation.add_done_callback(self._end)

    def _take(self, generation: Generation, progress: Progress) -> None:
        if generation is self._current:
            *sentences, self._unsaid = SENTENCE_END.split(self._unsaid + progress.delta_text)
            for sentence in sentences:
                self._answer.publish(String(data=sentence))

    def _end(self, generation: Generation) -> None:
        """Say the rest; the node's log has what went wrong, the robot's voice need not."""
        if generation is not self._current:
            return
        self._current = None
        if self._unsaid.strip():
            self._answer.publish(String(data=self._unsaid.strip()))
        try:
            result = generation.result(0)
        except Exception as error:
            self.get_logger().error(str(error))
        else:
            if result.error_code:
                self.get_logger().warning(f'{result.error_code.name}: {result.error_msg}')


def main() -> int:
    """Run the node until it is interrupted."""
    rclpy.init(args=sys.argv)
    node = Conversation()
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(node)
    node.destroy_node()
    rclpy.try_shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
