# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The examples, run for real: over DDS, against a node in another process."""

import sys
import threading
import warnings
from pathlib import Path
from xml.etree import ElementTree

import pytest
from domain import ros_environment
from peer import wait_for
from std_msgs.msg import String

from memspec_ros.client import connect
from memspec_ros.errors import ErrorCode
from memspec_ros.records import FinishReason, Request

EXAMPLES = Path(__file__).resolve().parents[2] / 'examples'
NODE_OPTIONS = ('--iteration-s', 0.002)
ROS_ARGS = ('-p', 'target.context_tokens:=200000')
LIMIT_S = 30


@pytest.fixture(scope='module')
def example():
    """The module of the behaviour; a distribution's py_trees may warn of its own past."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        py_trees = pytest.importorskip('py_trees')
    sys.path.insert(0, str(EXAMPLES / 'behaviour_tree'))
    import generate_behaviour
    return py_trees, generate_behaviour


@pytest.fixture
def client(served):
    with ros_environment(served.domain), connect() as client:
        yield client


class Robot:
    """A tree that asks, and an urgent branch that takes over when told."""

    def __init__(self, example, client, request):
        py_trees, module = example
        self.status = py_trees.common.Status
        self.urgent = py_trees.behaviours.StatusQueue(
            name='urgent', queue=[self.status.FAILURE], eventually=self.status.FAILURE)
        self.tree = module.make_tree(client, request, urgent=self.urgent)
        self.ask = self.tree.children[1]
        self.storage = py_trees.blackboard.Blackboard.storage
        self.storage.pop('/answer', None)
        self.turn = threading.Event()

    def tick_until_done(self):
        """Tick whenever the goal has news, as a robot does at its own rate."""
        self.tree.tick_once()
        self.ask.generation.add_done_callback(lambda _: self.turn.set())
        assert self.tree.status is self.status.RUNNING
        assert self.turn.wait(LIMIT_S)
        self.tree.tick_once()


def test_the_behaviour_succeeds_with_the_answer_on_the_blackboard(example, client):
    robot = Robot(example, client, Request(prompt='Where is the cup?', max_tokens=4))
    robot.tick_until_done()
    assert robot.tree.status is robot.status.SUCCESS
    assert robot.storage['/answer'] == 'w0 w1 w2 w3 '
    assert robot.ask.feedback_message == '4 tokens'


def test_the_behaviour_fails_with_the_reason(example, client):
    robot = Robot(example, client, Request(prompt='a', draft_hint='omega'))
    robot.tick_until_done()
    assert robot.tree.status is robot.status.FAILURE
    assert robot.ask.feedback_message.startswith("UNKNOWN_DRAFT: draft_hint is 'omega'")
    assert '/answer' not in robot.storage


def test_the_goal_is_cancelled_when_its_branch_is_halted(example, client):
    robot = Robot(example, client, Request(prompt='a', max_tokens=150_000))
    robot.tree.tick_once()
    generation = robot.ask.generation
    for _ in generation.deltas():
        break
    robot.urgent.eventually = robot.status.RUNNING
    robot.tree.tick_once()
    assert robot.ask.status is robot.status.INVALID
    result = generation.result(LIMIT_S)
    assert (result.finish_reason, result.error_code) == (FinishReason.CANCELED,
                                                         ErrorCode.CANCELED)
    robot.urgent.eventually = robot.status.FAILURE
    robot.tree.tick_once()
    assert robot.ask.generation is not generation
    robot.tree.stop(robot.status.INVALID)
    assert robot.ask.generation.result(LIMIT_S).finish_reason is FinishReason.CANCELED


@pytest.fixture
def speech(served, start):
    with ros_environment(served.domain):
        process = start(EXAMPLES / 'speech' / 'speech_to_goal.py', '--ros-args',
                        '-p', 'max_tokens:=150000')
    publisher = served.run(served.node.create_publisher, String, 'speech_text', 10)
    while publisher.get_subscription_count() == 0:
        served.run(lambda: None)
    yield lambda words: served.run(publisher.publish, String(data=words))
    served.run(served.node.destroy_publisher, publisher)
    process.kill()


def test_what_is_said_next_takes_the_floor(served, speech):
    before = served.process.output.count('CANCELED: canceled by a client')
    speech('Tell me a story.')
    speech('What time is it?')
    served.process.wait_for_count('CANCELED: canceled by a client', before + 1)
    speech('stop')
    served.process.wait_for_count('CANCELED: canceled by a client', before + 2)


def test_the_policy_allows_the_names_that_the_node_has(served):
    policy = ElementTree.parse(EXAMPLES / 'security' / 'memspec.policy.xml')
    profile, = (one for one in policy.iter('profile') if one.get('node') == 'memspec')
    graph = served.node
    wait_for(iter(lambda: graph.get_publisher_names_and_types_by_node('memspec', '/'), None),
             lambda found: len(found) >= 8)

    def names(kind, of):
        return {name for name, _ in getattr(graph, f'get_{of}_names_and_types_by_node')(
            'memspec', '/') if ('/_action/' in name) == (kind == 'action')}

    assert allowed(profile, 'topic') == names('topic', 'publisher')
    assert allowed(profile, 'service') == names('service', 'service')
    assert {name.partition('/_action/')[0] for name in names('action', 'service')} == \
        allowed(profile, 'action')
    assert names('topic', 'subscriber') <= {'/parameter_events'}


def allowed(profile, kind):
    return {'/' + one.text.replace('~', 'memspec').lstrip('/') for one in profile.iter(kind)}
