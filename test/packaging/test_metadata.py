# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What several files say of the package must be the same everywhere."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import memspec_ros

ROOT = Path(__file__).resolve().parents[2]
HEADER = re.compile(r'Copyright 2026 The memspec_ros authors.{0,8}\n.{0,8}'
                    r'SPDX-License-Identifier: Apache-2\.0')
WITH_HEADER = {'.py', '.yaml', '.cmake', '.sh', '.action', '.msg', '.srv', '.xml', '.cpp', '.hpp',
               '.h', ''}
# The licence itself, files of one line, and those that a command writes (`memspec pool add`).
WITHOUT_HEADER = {'LICENSE', '.gitignore', 'COLCON_IGNORE', 'py.typed', 'pool.yaml'}


def read(name):
    return (ROOT / name).read_text(encoding='utf-8')


def requirements(*extras):
    done = subprocess.run([sys.executable, ROOT / 'scripts' / 'requirements', *extras],
                          capture_output=True, text=True, check=True)
    return done.stdout.split('\n')[:-1]


def normalised(requirement):
    return re.match(r'[\w.-]+', requirement)[0].lower().replace('_', '-')


@pytest.mark.parametrize(('name', 'pattern'), [
    ('pyproject.toml', r"^version = '(.+)'$"),
    ('package.xml', r'<version>(.+)</version>'),
    ('CHANGELOG.rst', r'^(\d+\.\d+\.\d+)'),
])
def test_the_version_is_the_same_everywhere(name, pattern):
    assert re.search(pattern, read(name), re.MULTILINE)[1] == memspec_ros.__version__


def test_every_requirement_of_demo_and_tests_is_pinned():
    pins = {normalised(line) for line in read('scripts/constraints.txt').splitlines()
            if '==' in line}
    assert {normalised(item) for item in requirements('ros', 'test', 'dev')} <= pins


def test_torch_is_a_range_in_the_metadata_and_pinned_for_the_demo():
    assert [item for item in requirements() if normalised(item) == 'torch'] == ['torch>=2.8']
    assert 'torch==2.13.0' in read('scripts/constraints.txt').splitlines()


def test_an_unknown_extra_is_an_error():
    with pytest.raises(subprocess.CalledProcessError):
        requirements('no_such_extra')


def test_package_xml_is_an_interface_package_of_format_3():
    package = ElementTree.fromstring(read('package.xml'))
    assert package.get('format') == '3'
    assert package.findtext('member_of_group') == 'rosidl_interface_packages'
    assert package.findtext('export/build_type') == 'ament_cmake'


def test_every_source_file_has_the_licence_header():
    tracked = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True, text=True,
                             check=False).stdout.split('\0')[:-1]
    if not tracked:
        pytest.skip('not a git checkout')
    files = [ROOT / name for name in tracked if Path(name).suffix in WITH_HEADER
             and Path(name).name not in WITHOUT_HEADER]
    lacking = [str(path.relative_to(ROOT)) for path in files
               if path.is_file() and not HEADER.search(path.read_text(encoding='utf-8')[:400])]
    assert lacking == []
