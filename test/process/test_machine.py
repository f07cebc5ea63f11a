# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The machine's state as the node shows it, from a procfs and thermal zones of our own."""

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from peer import wait_for
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from memspec_ros.action import Generate
from memspec_ros.msg import DraftResidency

LATCHED = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE,
                     durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Machine:
    def __init__(self, folder):
        self.proc, self.zone = folder / 'proc', folder / 'thermal' / 'thermal_zone0'
        (self.proc / 'pressure').mkdir(parents=True)
        self.zone.mkdir(parents=True)
        (self.zone / 'type').write_text('cpu-thermal\n')
        self.set(available_mb=1000)

    def set(self, available_mb=1000, stalled=0.0, celsius=40):
        (self.proc / 'pressure' / 'memory').write_text(f'some avg10={stalled} avg60=0 total=0\n')
        (self.zone / 'temp').write_text(f'{celsius * 1000}\n')
        # Replaced as a whole: the node reads at any moment.
        fresh = self.proc / 'fresh'
        fresh.write_text(f'MemAvailable: {available_mb * 1000} kB\n')
        fresh.rename(self.proc / 'meminfo')


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def node(start_node, machine):
    node = start_node('--iteration-s', 0.001, ros_args=(
        '-p', f'machine.proc_folder:={machine.proc}',
        '-p', f'machine.thermal_folder:={machine.zone.parent}', '-p', 'machine.hold_s:=0'))
    node.wait_for('active')
    return node


def levels(message):
    return {status.name.removeprefix('memspec: '): status.level for status in message.status}


@pytest.mark.parametrize('idle', [True, False])
def test_k_shrinks_and_grows_and_both_topics_say_so(node, peer, machine, idle):
    with peer.listening(DraftResidency, '/memspec/draft_residency', LATCHED) as residency, \
            peer.listening(DiagnosticArray, '/diagnostics') as diagnostics, \
            peer.raw_client() as client:
        goal = None if idle else peer.send_raw(client, Generate.Goal(prompt='a', max_tokens=2000))
        machine.set(available_mb=50)
        wait_for(residency, lambda message: message.cache_capacity == 1)
        message = wait_for(diagnostics,
                           lambda one: levels(one)['drafts'] == DiagnosticStatus.WARN)
        assert levels(message)['memory'] == DiagnosticStatus.ERROR
        drafts = next(one for one in message.status if one.name == 'memspec: drafts')
        assert drafts.message == 'K is 1: memory pressure: 51 MB available, less than 128'
        machine.set()
        wait_for(residency, lambda message: message.cache_capacity == 2)
        message = wait_for(diagnostics, lambda one: levels(one)['drafts'] == DiagnosticStatus.OK)
        if goal:
            assert peer.result(goal).result.completion_tokens == 2000
    node.wait_for('K is at most 1: memory pressure')
    node.wait_for('K is 2 again: memory suffices')


@pytest.mark.usefixtures('node')
def test_temperature(peer, machine):
    with peer.listening(DiagnosticArray, '/diagnostics') as diagnostics:
        for celsius, level in ((40, DiagnosticStatus.OK), (90, DiagnosticStatus.WARN),
                               (99, DiagnosticStatus.ERROR)):
            machine.set(celsius=celsius)
            message = wait_for(diagnostics, lambda one, level=level:
                               levels(one)['temperature'] == level)
        assert message.status[-1].message == 'cpu-thermal: 99.0 C'
