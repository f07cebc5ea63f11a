# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A process under test: its output as it comes, its threads, its end."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAKE_NODE = Path(__file__).with_name('fake_node.py')
LIMIT_S = 30.0


class ProcessUnderTest:
    """Started at once; :meth:`kill` it in the end."""

    def __init__(self, *arguments):
        environment = {**os.environ, 'PYTHONPATH': str(ROOT), 'PYTHONUNBUFFERED': '1',
                       'PYTHONFAULTHANDLER': '1'}
        self.process = subprocess.Popen(
            [sys.executable, *map(str, arguments)], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env=environment, errors='replace')
        self.lines = []
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip('\n'))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def output(self):
        return '\n'.join(self.lines)

    def wait_for(self, text, limit_s=LIMIT_S):
        """Wait for a line with ``text`` and return it."""
        with self._changed:
            self._changed.wait_for(lambda: self._line(text) or self._ended, limit_s)
            line = self._line(text)
        assert line is not None, f'no line with {text!r} in:\n{self.output}'
        return line

    def wait_for_count(self, text, count, limit_s=LIMIT_S):
        """Wait until so many lines have ``text``."""
        with self._changed:
            self._changed.wait_for(lambda: sum(text in line for line in self.lines) >= count
                                   or self._ended, limit_s)
        assert self.output.count(text) >= count, f'{text!r} not {count} times in:\n{self.output}'

    def _line(self, text):
        return next((line for line in self.lines if text in line), None)

    def send(self, number):
        self.process.send_signal(number)

    def stop(self, number=signal.SIGINT, limit_s=LIMIT_S):
        """Send a signal and return the exit code and the seconds that the end took."""
        started_s = time.monotonic()
        self.send(number)
        try:
            code = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            # Where its threads stand.
            self.send(signal.SIGABRT)
            self._reader.join(LIMIT_S)
            raise AssertionError(f'still there {limit_s} s after signal {number}:\n'
                                 f'{self.output}') from None
        self._reader.join(LIMIT_S)
        return code, time.monotonic() - started_s

    def kill(self):
        self.process.kill()
        self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        self.process.stdout.close()

    def num_threads(self):
        return len(os.listdir(f'/proc/{self.process.pid}/task'))

    def num_files(self):
        return len(os.listdir(f'/proc/{self.process.pid}/fd'))
