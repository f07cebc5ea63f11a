# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One of the package's launch files under test, and what its processes write."""

import os
import threading
from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription, RegisterEventHandler
from launch.event_handlers import OnProcessExit, OnProcessIO, OnProcessStart
from launch_pytest.actions import ReadyToTest

LIMIT_S = 120.0


class Launched:
    """A launch file with its arguments; its lines, process ids and exit codes as they come."""

    def __init__(self, name, **arguments):
        share = Path(get_package_share_directory('memspec_ros'))
        self.file = share / 'launch' / name
        self.arguments = arguments
        self.lines = []
        self.pids = []
        self.exit_codes = []
        self._changed = threading.Condition()

    def description(self, *beside):
        """What a launch_pytest fixture returns; other launch files may be started beside it."""
        return LaunchDescription([*self._actions(), *(one.include() for one in beside),
                                  ReadyToTest()])

    def include(self):
        """The launch file with its arguments."""
        return IncludeLaunchDescription(str(self.file), launch_arguments=self.arguments.items())

    def _actions(self):
        handlers = (OnProcessIO(on_stdout=self._read, on_stderr=self._read),
                    OnProcessStart(on_start=self._keep(self.pids, lambda event: event.pid)),
                    OnProcessExit(on_exit=self._keep(self.exit_codes,
                                                     lambda event: event.returncode)))
        return [*map(RegisterEventHandler, handlers), self.include()]

    def _read(self, event):
        with self._changed:
            self.lines += event.text.decode(errors='replace').splitlines()
            self._changed.notify_all()

    def _keep(self, values, value_of):
        def handle(event, _context):
            with self._changed:
                values.append(value_of(event))
                self._changed.notify_all()
        return handle

    @property
    def output(self):
        return '\n'.join(self.lines)

    def wait_for(self, text):
        """Wait until a line has ``text``."""
        self._wait(lambda: text in self.output, f'no {text!r}')

    def wait_for_count(self, text, number):
        """Wait until so many times ``text`` was written."""
        self._wait(lambda: self.output.count(text) >= number, f'not {number} times {text!r}')

    def wait_for_pids(self, number):
        """Wait until so many processes have been started, and return their ids."""
        self._wait(lambda: len(self.pids) >= number, f'no {number} processes')
        return self.pids

    def _wait(self, condition, complaint):
        with self._changed:
            assert self._changed.wait_for(condition, LIMIT_S), f'{complaint} in:\n{self.output}'

    def is_alive(self):
        """Whether the process that was started last still runs."""
        return Path('/proc', str(self.pids[-1])).exists() and not self.exit_codes

    def kill(self):
        os.kill(self.pids[-1], 9)
