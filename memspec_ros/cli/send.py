# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec send``: sends a goal to a running node, from a process of its own."""

from __future__ import annotations

import argparse
import queue
import time
from typing import TYPE_CHECKING, Any

from memspec_ros.cli.interrupt import Interrupt
from memspec_ros.cli.options import add_request_arguments, request_from
from memspec_ros.cli.output import ResultPrinter, add_output_arguments
from memspec_ros.errors import ErrorCode, MemSpecError
from memspec_ros.records import Progress, Request, Result

if TYPE_CHECKING:
    from memspec_ros.client import GenerateClient, Generation

# How long a Ctrl-C may go unnoticed.
POLL_S = 0.1
# A node that loads its models is asked again after this time, then twice, up to so many times it.
RETRY_S = 0.25
MAX_RETRY_FACTOR = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``memspec send``."""
    group = add_request_arguments(parser)
    group.add_argument('--priority', type=int, default=0, metavar='N',
                       help='higher is served first (default: %(default)s)')
    group = parser.add_argument_group('server')
    group.add_argument('--namespace', default='', metavar='NS',
                       help='namespace of the node, e.g. /robot1')
    group.add_argument('--action', default='generate', metavar='NAME',
                       help='name of the action in it (default: %(default)s)')
    group.add_argument('--wait', type=float, default=10.0, metavar='SECONDS',
                       help='how long to wait for a node that is active (default: %(default)s)')
    group.add_argument('--ros-args', nargs=argparse.REMAINDER, default=[], metavar='...',
                       help='what follows goes to ROS')
    add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Send the goal and stream its text; 0 when it ended by itself, 1 when it failed.

    :raises MemSpecError: an option is wrong.
    """
    request = request_from(args)
    from memspec_ros.client import connect
    ros_args = ['--ros-args', *args.ros_args] if args.ros_args else []
    printer = ResultPrinter(as_json=args.json, quiet=args.quiet)
    with connect(action_name(args), ros_args=ros_args) as client:
        deadline_s = time.monotonic() + args.wait
        if not client.wait_for_server(args.wait):
            return printer.finish(no_server(args))
        with Interrupt() as interrupt:
            conversation = Conversation(client, printer, interrupt)
            return printer.finish(conversation.insist(request, deadline_s))


def action_name(args: argparse.Namespace) -> str:
    """Return the action's name in the namespace asked for."""
    namespace = args.namespace.strip('/')
    return f'/{namespace}/{args.action}' if namespace else str(args.action)


def no_server(args: argparse.Namespace) -> Result:
    """Return the result of a goal that nobody takes."""
    return Result(error_code=ErrorCode.NOT_ACTIVE, error_msg=(
        f"no node serves the action '{action_name(args)}' within {args.wait:g} s: start one "
        'with memspec node, or see ROS_DOMAIN_ID and --namespace (ros2 action list)'))


class Conversation:
    """One goal: prints what comes, and cancels it when a Ctrl-C asks for that.

    Feedback comes in the client's executor thread; everything here happens in the caller's.
    """

    def __init__(self, client: GenerateClient, printer: ResultPrinter,
                 interrupt: Interrupt) -> None:
        self._client = client
        self._printer = printer
        self._interrupt = interrupt
        self._news: queue.SimpleQueue[Progress | None] = queue.SimpleQueue()
        self._cancelled = False

    def insist(self, request: Request, deadline_s: float) -> Result:
        """Send the goal; while the node is not active, again until the deadline."""
        result, factor = self.send(request), 1
        while result.error_code == ErrorCode.NOT_ACTIVE and not self._interrupt.requested \
                and time.monotonic() < deadline_s:
            self._printer.tell(f'{result.error_msg}; waiting')
            time.sleep(factor * RETRY_S)
            result, factor = self.send(request), min(2 * factor, MAX_RETRY_FACTOR)
        return result

    def send(self, request: Request) -> Result:
        """Send the goal and wait for its end, whatever it is."""
        generation: Generation = self._client.send(request, on_progress=self._news.put)
        generation.add_done_callback(self._end)
        while (progress := self._next(generation)) is not None:
            self._printer.show(progress)
        try:
            return generation.result()
        except MemSpecError as error:
            # The server has left: what was printed is all that will ever be known.
            return Result(error_code=ErrorCode.INTERNAL, error_msg=str(error))

    def _next(self, generation: Generation) -> Progress | None:
        while True:
            if self._interrupt.requested and not self._cancelled:
                self._cancelled = True
                generation.cancel()
            try:
                return self._news.get(timeout=POLL_S)
            except queue.Empty:
                continue

    def _end(self, _generation: Any) -> None:
        self._news.put(None)
