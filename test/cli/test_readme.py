# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The README says what the code does: parameters, interfaces, files and commands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from memspec_ros.cli import main

ROOT = Path(__file__).resolve().parent.parent.parent
README = ROOT / 'README.md'


def text():
    return README.read_text(encoding='utf-8')


def test_the_parameter_table_is_current():
    done = subprocess.run([sys.executable, ROOT / 'scripts' / 'readme_tables', '--check'],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, '')


def test_a_table_that_is_not_current_is_found(tmp_path):
    scripts = tmp_path / 'scripts'
    scripts.mkdir()
    (tmp_path / 'memspec_ros').symlink_to(ROOT / 'memspec_ros')
    (scripts / 'readme_tables').write_bytes((ROOT / 'scripts' / 'readme_tables').read_bytes())
    (tmp_path / 'README.md').write_text(text().replace('| `runtime.cache_capacity` |', '| `k` |'),
                                        encoding='utf-8')
    command = [sys.executable, scripts / 'readme_tables']
    done = subprocess.run([*command, '--check'], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1, 'README.md is not current: run scripts/readme_tables\n')
    assert subprocess.run(command, check=False).returncode == 0
    assert (tmp_path / 'README.md').read_text(encoding='utf-8') == text()


def test_every_file_that_it_names_exists():
    named = set(re.findall(r'\]\((?!http)([^)#]+)\)', text()))
    named |= set(re.findall(r'`((?:memspec_ros/(?!msg|srv|action)|config/|launch/|scripts/|docs/)'
                            r'[\w./-]+)`', text()))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize('folder', ['action', 'msg', 'srv'])
def test_every_interface_is_described(folder):
    names = [path.stem for path in (ROOT / folder).iterdir()]
    assert [name for name in names if name not in text()] == []


def test_every_command_is_described():
    present = [name for name, command in main.COMMANDS.items() if main.exists(command)]
    assert [name for name in present if f'memspec {name}' not in text()] == []


def test_the_reading_path_is_short():
    listed = re.findall(r'^\d+\. \[`(memspec_ros/[\w/]+\.py)`\]', text(), re.MULTILINE)
    lines = sum(len((ROOT / name).read_text(encoding='utf-8').splitlines()) for name in listed)
    assert len(listed) == 6
    assert lines < 1000
