# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the client that sent a goal is still there.

A client that ends properly leaves the graph at once. One that is killed stays in it for the 20 s
of its DDS lease; on the same machine its process is watched instead, so that a robot does not
compute for a program that has crashed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rclpy.node import Node

from memspec_ros.node.client_guid import PREFIX_BYTES, Process, find_process, has_ended

# Until the graph shows a client that has just come, and while it shows none for a moment.
GRACE_S = 1.0


@dataclass(eq=False)
class ClientTrace:
    """Which participants may have sent a goal (one, as a rule), and when one was last there."""

    prefixes: frozenset[bytes]
    present_s: float
    was_present: bool = False
    processes: dict[bytes, Process] = field(default_factory=dict)
    reported: bool = False


class ClientWatch:
    """Traces goals to clients. Belongs to the executor thread.

    :param action_name: as resolved, with namespace and remapping.
    :param clock: monotonic seconds.
    """

    def __init__(self, node: Node, action_name: str, *,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._node = node
        self._feedback_topic = f'{action_name}/_action/feedback'
        self._clock = clock
        self._processes: dict[bytes, Process | None] = {}

    def trace(self, prefix: bytes | None) -> ClientTrace:
        """Return the trace of a goal that has just come from a client.

        :param prefix: the sender's, None when unknown: then anyone who listens to the action.
        """
        prefixes = frozenset([prefix]) if prefix else self.present()
        processes = {one: process for one in prefixes if (process := self._process(one))}
        return ClientTrace(prefixes=prefixes, present_s=self._clock(), processes=processes)

    def update(self) -> frozenset[bytes]:
        """Note the processes of new participants, and return who is present.

        A client may be killed between sending a goal and its acceptance; by then it is known.
        """
        present = self.present()
        for prefix in present:
            self._process(prefix)
        for prefix in self._processes.keys() - present:
            del self._processes[prefix]
        return present

    def _process(self, prefix: bytes) -> Process | None:
        if prefix not in self._processes and (own := self._own_prefix()):
            self._processes[prefix] = find_process(prefix, own)
        return self._processes.get(prefix)

    def present(self) -> frozenset[bytes]:
        """Return the participants that listen to the action's feedback, as the graph has them."""
        return frozenset(
            bytes(info.endpoint_gid)[:PREFIX_BYTES]
            for info in self._node.get_subscriptions_info_by_topic(self._feedback_topic))

    def is_lost(self, trace: ClientTrace, present: frozenset[bytes]) -> bool:
        """Whether nobody is left who may have sent the goal."""
        ended = {prefix for prefix, process in trace.processes.items() if has_ended(process)}
        if trace.prefixes and ended == trace.prefixes:
            return True
        if (trace.prefixes - ended) & present:
            trace.present_s, trace.was_present = self._clock(), True
            return False
        if self._clock() - trace.present_s < GRACE_S:
            return False
        if not trace.was_present:
            # Some middleware numbers clients in requests otherwise than in the graph.
            trace.prefixes, trace.was_present = present, bool(present)
            return False
        return True

    def _own_prefix(self) -> bytes:
        own = [info for info in self._node.get_publishers_info_by_topic(self._feedback_topic)
               if info.node_name == self._node.get_name()
               and info.node_namespace == self._node.get_namespace()]
        return bytes(own[0].endpoint_gid)[:PREFIX_BYTES] if own else b''
