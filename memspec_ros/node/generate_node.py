# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The lifecycle node: puts the parts together and moves them through the lifecycle."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.lifecycle import LifecycleNodeMixin, LifecycleState, TransitionCallbackReturn
from rclpy.node import Node

from memspec_ros.config import Settings
from memspec_ros.errors import ConfigError, MemSpecError, RequestError
from memspec_ros.node import health
from memspec_ros.node.backend import OpenRuntime, Runtime
from memspec_ros.node.goal import DEACTIVATED, SHUTTING_DOWN, StopOrder
from memspec_ros.node.goal_server import GoalServer, not_active
from memspec_ros.node.machine_watch import MachineWatch
from memspec_ros.node.outbox import Outbox
from memspec_ros.node.parameters import NodeParameters
from memspec_ros.node.publishers import Publishers
from memspec_ros.node.services import Services
from memspec_ros.node.transitions import Transitions
from memspec_ros.runtime.thermal import read_temperatures

NODE_NAME = 'memspec'
WATCH_RATE_HZ = 4.0
DIAGNOSTICS_RATE_HZ = 1.0
# Deactivate lets goals end; those that take longer are ended.
DRAIN_LIMIT_S = 30.0
# After it was told to, a goal ends at the next iteration.
STOP_LIMIT_S = 5.0

SUCCESS = TransitionCallbackReturn.SUCCESS
FAILURE = TransitionCallbackReturn.FAILURE


class GenerateNode(LifecycleNodeMixin, Node):
    """Serves the action ``generate`` (relative), topics and services under its own name.

    configure loads, activate serves, deactivate drains, cleanup frees. Everything in here runs in
    the executor thread, the on_* callbacks in the transition's.

    :param open_runtime: what configure calls; the fake in tests.
    """

    def __init__(self, open_runtime: OpenRuntime, **node_arguments: Any) -> None:
        Node.__init__(self, NODE_NAME, **node_arguments)
        # A transition awaits its thread, and get_state must answer meanwhile.
        LifecycleNodeMixin.__init__(self, callback_group=ReentrantCallbackGroup())
        self._open_runtime = open_runtime
        self._runtime: Runtime | None = None
        self._last_error = ''
        self._started_s = time.monotonic()
        self._drained = threading.Event()
        self._outbox = Outbox(self)
        self._ros_parameters = NodeParameters(self, on_change=self._apply)
        self._goals = GoalServer(
            self, self._outbox, settings=lambda: self.settings.server,
            queue_capacity=self.settings.server.queue_capacity, on_change=self._on_goals_changed,
            on_progress=self._on_progress)
        self._topics = Publishers(self)
        self._questions = Services(self, self._goals, runtime=lambda: self._runtime,
                                  state=lambda: (self.state, self._last_error))
        self._machine = MachineWatch(self.get_logger(), run_idle=self._goals.decode_thread.call)
        self._transitions = Transitions(self, self._outbox, state=lambda: self.state)
        self._create_timers()
        self._goals.decode_thread.start()
        self._report_parameters()

    def _create_timers(self) -> None:
        # Steady time: a clock that jumps, or a simulation that pauses, must not stop them.
        clock = Clock(clock_type=ClockType.STEADY_TIME)
        throughput_rate_hz = self.settings.server.throughput_rate_hz
        for rate_hz, callback in ((WATCH_RATE_HZ, self._watch),
                                  (DIAGNOSTICS_RATE_HZ, self._publish_diagnostics),
                                  (throughput_rate_hz, self._publish_figures)):
            self.create_timer(1.0 / rate_hz, callback, clock=clock)

    def _watch(self) -> None:
        self._goals.watch()
        self._machine.update(self._runtime, self.settings)

    def _report_parameters(self) -> None:
        for problem in self._ros_parameters.warnings:
            self.get_logger().warning(f'{problem}; ignored')
        for problem in self._ros_parameters.errors:
            self.get_logger().error(problem)

    @property
    def settings(self) -> Settings:
        """The parameters as they are now."""
        return self._ros_parameters.settings

    @property
    def state(self) -> str:
        """The lifecycle state's label."""
        return str(self._state_machine.current_state[1])

    def set_parameters_atomically(self, parameter_list: Sequence[Any]) -> Any:
        """Set parameters, all or none; what is wrong with one is said in its range's terms."""
        try:
            parameter_list = self._ros_parameters.coerced(parameter_list)
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return super().set_parameters_atomically(parameter_list)

    def _apply(self, settings: Settings) -> None:
        if self._runtime is not None:
            self._runtime.apply(settings)

    # The lifecycle.

    async def autostart(self) -> None:
        """Configure and activate, if the parameters say so."""
        if self.settings.server.autostart and await self._transitions.run('configure'):
            await self._transitions.run('activate')

    def on_configure(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Load the models; what is missing is named, and configure may be tried again."""
        self._last_error = ''
        self._goals.refusal = not_active('configuring')
        try:
            if self._ros_parameters.errors:
                raise ConfigError('; '.join(self._ros_parameters.errors))
            report = self.get_logger().info
            runtime = self._goals.decode_thread.call(
                lambda: self._open_runtime(self.settings, report=report)).result()
        except MemSpecError as error:
            return self._fail_configure(str(error))
        except Exception as error:
            return self._fail_configure(f'{type(error).__name__}: {error}')
        self._machine.forget()
        self._runtime = runtime
        self._goals.use(runtime)
        self._goals.refusal = not_active('inactive')
        self._outbox.post(self._publish_residency)
        return SUCCESS

    def _fail_configure(self, message: str) -> TransitionCallbackReturn:
        self._last_error = f'configure failed: {message}'
        self._goals.refusal = not_active('unconfigured')
        self.get_logger().error(
            f'{self._last_error}\nThe node stays up. Mend it, then: ros2 lifecycle set '
            f'{self.get_fully_qualified_name()} configure')
        return FAILURE

    def on_activate(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Serve goals."""
        self._last_error = ''
        self._goals.refusal = None
        self.get_logger().info('active: serving goals')
        return SUCCESS

    def on_deactivate(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Take no more goals and let those that were taken end."""
        self._drain(DEACTIVATED, DRAIN_LIMIT_S)
        return SUCCESS

    def on_cleanup(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Free the models."""
        self._last_error = ''
        self._close_runtime('unconfigured')
        return SUCCESS

    def on_shutdown(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """End all goals and free the models."""
        self._drain(SHUTTING_DOWN, 0.0)
        self._close_runtime('finalized')
        return SUCCESS

    def _drain(self, order: StopOrder, limit_s: float) -> None:
        self._goals.refusal = not_active('inactive')
        for work, wait_s in ((self._on_goals_changed, limit_s),
                             (lambda: self._goals.stop_all(order), STOP_LIMIT_S),
                             (lambda: self._goals.abandon_all(order), STOP_LIMIT_S)):
            self._drained.clear()
            self._outbox.post(work)
            self._outbox.post(self._on_goals_changed)
            if self._drained.wait(wait_s):
                return

    def _close_runtime(self, state: str) -> None:
        self._goals.refusal = not_active(state)
        self._goals.use(None)
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            self._goals.decode_thread.call(runtime.close).result()

    # Shutdown of the process; called from the main thread.

    def end_goals(self, limit_s: float) -> bool:
        """Tell all clients that the node shuts down; whether every goal has ended."""
        self._goals.refusal = RequestError(SHUTTING_DOWN.code, SHUTTING_DOWN.message)
        self._drained.clear()
        self._outbox.post(lambda: self._goals.stop_all(SHUTTING_DOWN))
        self._outbox.post(self._on_goals_changed)
        if self._drained.wait(limit_s):
            return True
        self._outbox.post(lambda: self._goals.abandon_all(SHUTTING_DOWN))
        return self._drained.wait(limit_s)

    def end_decode_thread(self, limit_s: float) -> bool:
        """Free the models and end the thread; False when it is still busy."""
        if self._runtime is not None:
            self._goals.decode_thread.call(self._runtime.close)
        self._goals.decode_thread.stop()
        return self._goals.decode_thread.join(limit_s)

    def post(self, work: Any) -> None:
        """Have something run in the executor thread."""
        self._outbox.post(work)

    # What is published.

    def _on_goals_changed(self) -> None:
        if not self._goals.open_goals:
            self._drained.set()
        self._publish_residency(with_scores=False)

    def _on_progress(self) -> None:
        """Have a change of residency published; called in the decode thread."""
        runtime = self._runtime
        if runtime is not None and self._topics.is_news(runtime.residency(), with_scores=False):
            self._outbox.post(self._publish_residency)

    def _publish_residency(self, *, with_scores: bool = True) -> None:
        if self._runtime is not None:
            self._topics.residency(self._runtime.residency(), with_scores=with_scores)

    def _publish_figures(self) -> None:
        if self._runtime is not None and self.state == 'active':
            self._topics.throughput(self._runtime.throughput(),
                                        queue_length=self._goals.decode_thread.num_waiting)
            self._publish_residency()

    def _publish_diagnostics(self) -> None:
        self._topics.diagnostics(self._checks())

    def _checks(self) -> list[health.Check]:
        decode_thread = self._goals.decode_thread
        checks = [
            health.check_lifecycle(self.state, self._last_error,
                                   time.monotonic() - self._started_s),
            health.check_queue(decode_thread.num_waiting, decode_thread.queue_capacity,
                               self._goals.num_ended, self._goals.num_failed)]
        if self._runtime is not None:
            throughput = self._runtime.throughput()
            checks += [health.check_drafts(self._runtime.residency()),
                       health.check_acceptance(throughput),
                       health.check_memory(throughput, self.settings.runtime.headroom_mb,
                                           self._machine.memory)]
        return checks + health.check_temperatures(
            read_temperatures(self.settings.machine.thermal_folder), self.settings.machine)
