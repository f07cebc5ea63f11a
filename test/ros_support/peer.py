# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Another node on the graph: calls services, listens to topics and sends raw goals."""

import contextlib
import queue
import threading
import time

import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import (
    DescribeParameters,
    GetParameters,
    ListParameters,
    SetParametersAtomically,
)
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions

from memspec_ros.action import Generate

LIMIT_S = 30.0
NUM_ATTEMPTS = 6
TRANSITIONS = {
    'configure': Transition.TRANSITION_CONFIGURE, 'activate': Transition.TRANSITION_ACTIVATE,
    'deactivate': Transition.TRANSITION_DEACTIVATE, 'cleanup': Transition.TRANSITION_CLEANUP,
    'shutdown': Transition.TRANSITION_ACTIVE_SHUTDOWN}


def wait_for(messages, condition):
    """Return the first of the messages of a queue (or iterator) that meets a condition.

    A topic that goes on without it would keep a test for ever.
    """
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        message = messages.get(timeout=LIMIT_S) if hasattr(messages, 'get') else next(messages)
        if condition(message):
            return message
        assert time.monotonic() < deadline_s, f'not in {LIMIT_S} s; the last was {message}'


class Peer:
    """A node of the test's own process, with an executor thread."""

    def __init__(self, node_name='/memspec'):
        self.node_name = node_name
        self.context = rclpy.Context()
        rclpy.init(context=self.context, signal_handler_options=SignalHandlerOptions.NO)
        self.node = rclpy.create_node('test_peer', context=self.context)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._ended = False
        self._services = {}
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self):
        while not self._ended:
            self._executor.spin_once()

    def close(self):
        self._ended = True
        self._executor.create_task(lambda: None)
        self._thread.join(LIMIT_S)
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)

    def run(self, function, *arguments):
        """Run something in the executor thread and return what it returns."""
        answers = queue.SimpleQueue()
        self._executor.create_task(lambda: answers.put(function(*arguments)))
        return answers.get(timeout=LIMIT_S)

    def future(self, start, limit_s=LIMIT_S):
        """Start an asynchronous request in the executor thread and wait for its answer."""
        answers = queue.SimpleQueue()
        self._executor.create_task(lambda: start().add_done_callback(
            lambda future: answers.put(future.result())))
        return answers.get(timeout=limit_s)

    def service(self, service_type, name):
        """Return the client of a service of the node under test, made at its first use."""
        key = f'{self.node_name}/{name}'
        if key not in self._services:
            self._services[key] = self.run(self.node.create_client, service_type, key)
        assert self._services[key].wait_for_service(LIMIT_S), f'no service {key}'
        return self._services[key]

    def call(self, service_type, name, **fields):
        """Call a service of the node under test; a question may be asked more than once.

        The node answers nobody whom it has not discovered yet, though he has discovered it.
        """
        client = self.service(service_type, name)
        for attempt in range(NUM_ATTEMPTS):
            last = attempt == NUM_ATTEMPTS - 1
            with contextlib.suppress(() if last else queue.Empty):
                return self.future(lambda: client.call_async(service_type.Request(**fields)),
                                   LIMIT_S / NUM_ATTEMPTS)
        raise AssertionError('unreachable')

    def state(self):
        return self.call(GetState, 'get_state').current_state.label

    def wait_for_state(self, label, limit_s=LIMIT_S):
        """Ask until the lifecycle state is this one."""
        deadline_s = time.monotonic() + limit_s
        while (state := self.state()) != label:
            assert time.monotonic() < deadline_s, f'the state is {state}, not {label}'

    def change_state(self, name, limit_s=LIMIT_S):
        """Ask for a transition, once, when the node is sure to answer."""
        service = self.service(ChangeState, 'change_state')
        self.state()
        request = ChangeState.Request(transition=Transition(id=TRANSITIONS[name]))
        return self.future(lambda: service.call_async(request), limit_s).success

    def set_parameters(self, **values):
        """Set parameters as one set; dots in names are written as double underscores."""
        messages = [ParameterMessage(name=name.replace('__', '.'),
                                     value=Parameter('x', value=value).get_parameter_value())
                    for name, value in values.items()]
        return self.call(SetParametersAtomically, 'set_parameters_atomically',
                         parameters=messages).result

    def get_parameters(self, *names):
        values = self.call(GetParameters, 'get_parameters', names=list(names)).values
        return [Parameter.from_parameter_msg(ParameterMessage(name=name, value=value)).value
                for name, value in zip(names, values, strict=True)]

    def parameter_names(self):
        return self.call(ListParameters, 'list_parameters').result.names

    def describe(self, name):
        return self.call(DescribeParameters, 'describe_parameters', names=[name]).descriptors[0]

    @contextlib.contextmanager
    def listening(self, message_type, topic, qos=10):
        """Yield a queue of the messages of a topic."""
        messages = queue.SimpleQueue()
        subscription = self.run(self.node.create_subscription, message_type, topic, messages.put,
                                qos)
        yield messages
        self.run(self.node.destroy_subscription, subscription)

    @contextlib.contextmanager
    def raw_client(self, action_name='generate'):
        """Yield rclpy's own action client, as a program without our helper has it."""
        client = self.run(ActionClient, self.node, Generate, action_name)
        assert client.wait_for_server(LIMIT_S)
        yield client
        self.run(client.destroy)

    def send_raw(self, client, goal, on_feedback=None):
        """Send a goal and return its handle."""
        return self.future(lambda: client.send_goal_async(goal, feedback_callback=on_feedback))

    def result(self, handle):
        return self.future(handle.get_result_async)
