# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a running node tells on its topics, as values."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node

from memspec_ros.client.connection import connected
from memspec_ros.msg import DraftResidency
from memspec_ros.msg import Throughput as ThroughputMessage
from memspec_ros.node.conversions import (
    check_from_status,
    residency_from_message,
    throughput_from_message,
)
from memspec_ros.node.health import Check
from memspec_ros.node.publishers import RESIDENCY_QOS, THROUGHPUT_QOS
from memspec_ros.records import Residency, Throughput


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What was told last; None is nothing yet."""

    throughput: Throughput | None = None
    queue_length: int = 0
    residency: Residency | None = None
    checks: Sequence[Check] = field(default_factory=tuple)

    @property
    def state(self) -> str:
        """The lifecycle state, as diagnostics have it; '' before they came."""
        states = [str(check.values.get('state', '')) for check in self.checks
                  if check.name == 'lifecycle']
        return states[0] if states else ''


class TopicFeed:
    """Subscribes to the topics of one node; callbacks run in the executor of ``node``.

    :param watched: fully qualified name of the node that is watched.
    :param on_news: called with what was told last, after each message.
    """

    def __init__(self, node: Node, watched: str, on_news: Callable[[Sight], None]) -> None:
        self._watched = watched.lstrip('/')
        self._on_news = on_news
        self._told: dict[str, Any] = {}
        self._lock = threading.Lock()
        for message_type, topic, take, qos in (
                (ThroughputMessage, f'{watched}/throughput', self._throughput, THROUGHPUT_QOS),
                (DraftResidency, f'{watched}/draft_residency', self._residency, RESIDENCY_QOS),
                (DiagnosticArray, '/diagnostics', self._diagnostics, 10)):
            node.create_subscription(message_type, topic, take, qos)

    def _throughput(self, message: Any) -> None:
        self._tell(throughput=throughput_from_message(message), queue_length=message.queue_length)

    def _residency(self, message: Any) -> None:
        self._tell(residency=residency_from_message(message))

    def _diagnostics(self, message: Any) -> None:
        found = [check_from_status(status, node_name=self._watched) for status in message.status]
        if checks := tuple(check for check in found if check is not None):
            self._tell(checks=checks)

    def _tell(self, **news: Any) -> None:
        with self._lock:
            self._told.update(news)
            sight = Sight(**self._told)
        self._on_news(sight)


@contextmanager
def watching(watched: str, on_news: Callable[[Sight], None], *,
             ros_args: Sequence[str] = ()) -> Iterator[None]:
    """Have ``on_news`` called, in a thread of its own, with what a node tells."""
    with connected(lambda node: TopicFeed(node, watched, on_news), lambda _: None,
                   node_name='memspec_monitor', ros_args=ros_args):
        yield
