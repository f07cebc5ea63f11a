# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The process behind a DDS participant."""

import os
import subprocess
import sys

import rclpy
from domain import own_domain, ros_environment
from std_srvs.srv import Trigger

from memspec_ros.node import client_guid
from memspec_ros.node.client_guid import Process, client_prefix, find_process, has_ended


def prefix_of(pid, host=b'\x12\x34', vendor=b'\x01\x0f'):
    return vendor + host + (pid & 0xFFFF).to_bytes(2, 'little') + b'\xab\xcd' + bytes(4)


OWN = prefix_of(os.getpid())


def test_a_request_tells_the_prefix_of_its_sender():
    with own_domain() as domain, ros_environment(domain):
        context = rclpy.Context()
        rclpy.init(context=context)
        node = rclpy.create_node('both', context=context)
        service = node.create_service(Trigger, 'ask', lambda _, response: response)
        client = node.create_client(Trigger, 'ask')
        assert client.wait_for_service(30)
        client.call_async(Trigger.Request())
        header = None
        while header is None:
            _, header = service.handle.service_take_request(Trigger.Request)
        prefix = client_prefix(header.request_id)
        own = bytes(node.get_publishers_info_by_topic('/rosout')[0].endpoint_gid)[:12]
        node.destroy_node()
        rclpy.shutdown(context=context)
    assert prefix == own
    assert int.from_bytes(prefix[4:6], 'little') == os.getpid() & 0xFFFF
    assert find_process(prefix, own).pid == os.getpid()


class Header:
    """Has a sequence number, and at the place of a C++ value something else."""

    def __init__(self, sequence_number):
        self.sequence_number = sequence_number


def test_a_header_of_another_make_tells_nothing():
    assert client_prefix(object()) is None
    assert client_prefix(Header(3)) is None


def test_other_hosts_and_vendors_name_no_process(monkeypatch):
    monkeypatch.setattr(client_guid, '_maps_fast_dds', lambda _: True)
    assert find_process(prefix_of(os.getpid()), OWN).pid == os.getpid()
    assert find_process(prefix_of(os.getpid(), host=b'\x99\x99'), OWN) is None
    assert find_process(prefix_of(os.getpid(), vendor=b'\x01\x10'), OWN) is None


def test_a_program_without_dds_is_no_client(monkeypatch):
    monkeypatch.setattr(client_guid, '_maps_fast_dds', lambda _: False)
    assert find_process(prefix_of(os.getpid()), OWN) is None


def test_a_process_has_ended_when_it_is_dead_even_if_not_reaped():
    child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)
    process = client_guid.read_process(child.pid)
    assert not has_ended(process)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert has_ended(process)
    child.wait()
    child.stdin.close()
    assert has_ended(process)


def test_another_process_of_the_same_id_is_another():
    own = client_guid.read_process(os.getpid())
    assert not has_ended(own)
    assert has_ended(Process(own.pid, '1'))
