# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The node's process: starts it, and ends it in time when it is asked to."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import NoReturn

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from memspec_ros.node.backend import OpenRuntime, open_runtime
from memspec_ros.node.generate_node import GenerateNode

# The parts of the 3 s in which a signal ends the process.
END_GOALS_S = 0.7
LINGER_S = 0.1
END_THREAD_S = 0.5
# They sum to 2.5 s. An end that takes longer waits for something that never comes, in DDS or in a
# driver; the second limit holds where no Python runs any more.
END_S, GIVE_UP_S = 2.8, 10.0


def main(args: Sequence[str] | None = None, *,
         open_runtime: OpenRuntime = open_runtime) -> int:
    """Run the node until SIGINT or SIGTERM; then the process ends here, with exit code 0.

    :param args: with --ros-args, as rcl takes them; the process's own when None.
    :param open_runtime: what configure calls.
    :returns: an exit code, when the node could not be started.
    """
    # rclpy's own handlers shut the context down at once, and no client could be told.
    stop = _StopRequests((signal.SIGINT, signal.SIGTERM))
    try:
        rclpy.init(args=list(sys.argv[1:] if args is None else args),
                   signal_handler_options=SignalHandlerOptions.NO)
        node = GenerateNode(open_runtime)
    except Exception as error:
        print(f'memspec node: {type(error).__name__}: {error}', file=sys.stderr)
        return 2
    return _Process(node, stop).run()


class _StopRequests:
    """The signals that end the process, for the main thread to wait for.

    They come through a pipe, not through an Event: a handler that sets an Event takes a lock
    that the thread it interrupts may hold, and it only runs once that thread is awake, whichever
    thread the system gave the signal to.
    """

    def __init__(self, numbers: Sequence[signal.Signals]) -> None:
        self._num_requests = 0
        self._arrived, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup)
        for number in numbers:
            signal.signal(number, self._handle)

    def wait(self) -> None:
        """Return when the first has come."""
        os.read(self._arrived, 1)

    def _handle(self, *_: object) -> None:
        self._num_requests += 1
        if self._num_requests > 1:
            # Asked twice: whoever asks does not want to wait for clients to be told.
            _exit_now(1)


class _Process:
    """The executor thread and the order in which everything ends."""

    def __init__(self, node: GenerateNode, stop: _StopRequests) -> None:
        self._node = node
        self._logger = node.get_logger()
        self._stop = stop
        self._ended = threading.Event()
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(node)
        self._thread = threading.Thread(target=self._spin, name='executor', daemon=True)

    def run(self) -> NoReturn:
        """Serve until asked to stop, then end within 3 s."""
        self._executor.create_task(self._node.autostart)
        self._thread.start()
        self._stop.wait()
        faulthandler.dump_traceback_later(GIVE_UP_S, exit=True)
        limit = threading.Timer(END_S, _end_without)
        limit.daemon = True
        limit.start()
        self._logger.info('shutting down')
        all_ended = self._node.end_goals(END_GOALS_S)
        # The results are on their way; a client that has just been accepted asks for its own now.
        time.sleep(LINGER_S)
        clean = self._node.end_decode_thread(END_THREAD_S) and all_ended
        clean = self._end_executor() and clean
        if clean:
            self._node.destroy_node()
            rclpy.try_shutdown()
        else:
            self._logger.warning('a thread is still busy (loading, or in a long pass): '
                                 'the process ends without it')
        _exit_now(0)

    def _spin(self) -> None:
        while not self._ended.is_set():
            try:
                self._executor.spin_once()
            except ExternalShutdownException:
                return
            except Exception:
                # A callback that failed, ours or rclpy's, must not end the node.
                self._logger.error(f'in a callback: {traceback.format_exc()}')

    def _end_executor(self) -> bool:
        self._ended.set()
        self._node.post(lambda: None)
        self._thread.join(END_THREAD_S)
        if self._thread.is_alive():
            return False
        self._executor.shutdown()
        return True


def _end_without() -> NoReturn:
    """End the process though its main thread is stuck, and say where each thread stands."""
    os.write(2, b'memspec node: stuck in its end; the threads stand at:\n')
    faulthandler.dump_traceback(all_threads=True)
    os._exit(0)


def _exit_now(code: int) -> NoReturn:
    """End the process without the interpreter's own teardown, which takes seconds with torch."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
