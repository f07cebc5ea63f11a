# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The topics ~/draft_residency, ~/throughput and /diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from memspec_ros.msg import DraftResidency
from memspec_ros.msg import Throughput as ThroughputMessage
from memspec_ros.node.conversions import (
    check_to_status,
    residency_to_message,
    throughput_to_message,
)
from memspec_ros.node.health import Check
from memspec_ros.records import Residency, Throughput

# Reliable: rqt subscribes reliably, and best effort would be invisible to it.
THROUGHPUT_QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
RESIDENCY_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE,
                           durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Publishers:
    """Publishes what it is given; observes and changes nothing. Belongs to the executor thread."""

    def __init__(self, node: Node) -> None:
        self._name = node.get_fully_qualified_name().lstrip('/')
        self._now: Callable[[], Any] = lambda: node.get_clock().now().to_msg()
        self._residency = node.create_publisher(DraftResidency, '~/draft_residency', RESIDENCY_QOS)
        self._throughput = node.create_publisher(ThroughputMessage, '~/throughput', THROUGHPUT_QOS)
        # Absolute, as every tool that reads it expects; remap it to move it.
        self._diagnostics = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self._last: Residency | None = None

    def residency(self, residency: Residency, *, with_scores: bool) -> None:
        """Publish which drafts are in memory, if that has changed.

        :param with_scores: whether a change of scores alone counts; they change at every ranking.
        """
        if self.is_news(residency, with_scores=with_scores):
            self._last = residency
            self._residency.publish(residency_to_message(residency, self._now()))

    def is_news(self, residency: Residency, *, with_scores: bool) -> bool:
        """Whether this residency would be published; any thread may ask."""
        last = self._last
        return last is None or _shown(residency, with_scores) != _shown(last, with_scores)

    def throughput(self, throughput: Throughput, *, queue_length: int) -> None:
        """Publish the running figures."""
        self._throughput.publish(throughput_to_message(throughput, self._now(),
                                                       queue_length=queue_length))

    def diagnostics(self, checks: Sequence[Check]) -> None:
        """Publish the state of the components."""
        message = DiagnosticArray(status=[check_to_status(check, node_name=self._name)
                                          for check in checks])
        message.header.stamp = self._now()
        self._diagnostics.publish(message)


def _shown(residency: Residency, with_scores: bool) -> object:
    if with_scores:
        return residency
    return residency.active_draft, residency.cache_capacity, residency.resident_bytes, tuple(
        (draft.name, draft.state, draft.in_working_set, draft.reason)
        for draft in residency.drafts)
