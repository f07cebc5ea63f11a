# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec monitor``: a running node's topics as a dashboard in the terminal."""

from __future__ import annotations

import argparse
import queue
import shutil
import sys
import time
from typing import TYPE_CHECKING

from memspec_ros.cli.dashboard import Dashboard, missing
from memspec_ros.cli.interrupt import Interrupt

if TYPE_CHECKING:
    from memspec_ros.client.topic_feed import Sight

NODE_NAME = 'memspec'
POLL_S = 0.1
# From the top, each line to its end, and what was below: no flicker, and no curses.
HOME, CLEAR_LINE, CLEAR_REST = '\x1b[H', '\x1b[K', '\x1b[J'
CLEAR = '\x1b[2J'
FALLBACK_SIZE = (100, 40)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``memspec monitor``."""
    parser.add_argument('--namespace', default='', metavar='NS',
                        help='namespace of the node, e.g. /robot1')
    parser.add_argument('--node', default=NODE_NAME, metavar='NAME',
                        help='name of the node in it (default: %(default)s)')
    parser.add_argument('--once', action='store_true', help='print one picture and end')
    parser.add_argument('--wait', type=float, default=10.0, metavar='SECONDS',
                        help='how long --once waits for the topics (default: %(default)s)')
    parser.add_argument('--ros-args', nargs=argparse.REMAINDER, default=[], metavar='...',
                        help='what follows goes to ROS')


def run(args: argparse.Namespace) -> int:
    """Watch until Ctrl-C; with --once 0 when the node has told all, 1 when not in time."""
    from memspec_ros.client.topic_feed import watching
    watched = '/' + '/'.join(filter(None, (args.namespace.strip('/'), args.node)))
    ros_args = ['--ros-args', *args.ros_args] if args.ros_args else []
    news: queue.SimpleQueue[Sight] = queue.SimpleQueue()
    with Interrupt() as interrupt, watching(watched, news.put, ros_args=ros_args):
        monitor = Monitor(watched, news, interrupt)
        return monitor.show_once(args.wait) if args.once else monitor.show()


class Monitor:
    """Draws what comes; belongs to the main thread.

    :param news: what was told last, after each message.
    """

    def __init__(self, watched: str, news: queue.SimpleQueue[Sight],
                 interrupt: Interrupt) -> None:
        self._watched = watched
        self._news = news
        self._interrupt = interrupt
        self._dashboard = Dashboard(watched, colours=sys.stdout.isatty())

    def show(self) -> int:
        """Draw again after each message, until interrupted."""
        sys.stdout.write(CLEAR)
        self._draw_over([f'{self._watched}: waiting for news (see ROS_DOMAIN_ID and --namespace)'])
        while not self._interrupt.requested:
            if (sight := self._next()) is not None:
                self._draw_over(self._dashboard.lines(sight, self._width))
        print()
        return 0

    def show_once(self, wait_s: float) -> int:
        """Print one picture as soon as each topic has told; or what came until the limit."""
        deadline_s = time.monotonic() + wait_s
        sight: Sight | None = None
        while time.monotonic() < deadline_s and not self._interrupt.requested:
            sight = self._next() or sight
            if sight is not None and not any(missing(sight).values()):
                break
        if sight is None:
            print(f"memspec: the node '{self._watched}' told nothing within {wait_s:g} s: see "
                  'ROS_DOMAIN_ID and --namespace (ros2 node list)', file=sys.stderr)
            return 1
        print('\n'.join(self._dashboard.lines(sight, self._width)))
        silent = [topic for topic, is_missing in missing(sight).items() if is_missing]
        if silent:
            print(f'memspec: nothing came on {", ".join(silent)}', file=sys.stderr)
        return 1 if silent else 0

    @property
    def _width(self) -> int:
        return shutil.get_terminal_size(FALLBACK_SIZE).columns

    def _next(self) -> Sight | None:
        try:
            sight = self._news.get(timeout=POLL_S)
        except queue.Empty:
            return None
        self._dashboard.add(sight)
        return sight

    def _draw_over(self, lines: list[str]) -> None:
        height = shutil.get_terminal_size(FALLBACK_SIZE).lines
        drawn = f'{CLEAR_LINE}\n'.join(lines[:height - 1])
        sys.stdout.write(f'{HOME}{drawn}{CLEAR_LINE}\n{CLEAR_REST}')
        sys.stdout.flush()
