# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec node`` in a process of its own: parameters reach the node, and it ends in order."""

import pytest

PARAMS = """
/**:
  ros__parameters:
    use_sim_time: false
    target: {model: /no/such/model.gguf, device: cpu}
    runtime: {headroom_mb: 1}
"""


@pytest.fixture
def node(start, tmp_path):
    path = tmp_path / 'params.yaml'
    path.write_text(PARAMS, encoding='utf-8')
    return start('-m', 'memspec_ros.cli', 'node', '--params-file', path,
                 '--param', 'server.queue_capacity=3', '--param', 'draft.names=1e5,b',
                 '--param', 'draft.pool=', '--policy', 'memspec',
                 '--ros-args', '-r', '__ns:=/arm')


def test_file_and_overrides_reach_the_node_and_a_signal_ends_it(node, peer):
    peer.node_name = '/arm/memspec'
    node.wait_for('/no/such/model.gguf')
    node.wait_for('The node stays up')
    assert peer.get_parameters('server.queue_capacity', 'draft.names', 'draft.pool',
                               'runtime.policy', 'runtime.headroom_mb') == [
        3, ['1e5', 'b'], '', 'memspec', 1.0]
    assert node.stop()[0] == 0
