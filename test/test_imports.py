# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The order of the layers, and the few facts of form that every source file keeps."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / 'memspec_ros'
HEADER = ['# Copyright 2026 The memspec_ros authors', '# SPDX-License-Identifier: Apache-2.0']
MAX_COLUMNS = 99
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 45

CORE = ('errors', 'records', 'config', 'boundaries', 'atomic_file')
BELOW_RUNTIME = ('models', 'decoding', 'prediction')
RUNTIME = (*BELOW_RUNTIME, 'runtime')
# Each part may import itself, the core, and what is named here.
MAY_IMPORT = {
    'errors': (), 'records': ('errors',), 'config': ('errors',),
    'boundaries': ('errors', 'records'), 'atomic_file': ('errors',),
    'native': (), 'models': (), 'decoding': ('models',), 'prediction': ('models', 'decoding'),
    'runtime': BELOW_RUNTIME,
    'testing': RUNTIME,
    'replay': RUNTIME,
    'training': (*RUNTIME, 'replay'),
    'bench': (*RUNTIME, 'replay', 'training'),
    'node': RUNTIME,
    'client': ('node',),
    'cli': (*RUNTIME, 'replay', 'training', 'bench', 'node', 'client'),
}
ROS_PARTS = ('node', 'client')
ROS_MODULES = ('rclpy', 'rcl_interfaces', 'builtin_interfaces', 'std_msgs', 'std_srvs',
               'diagnostic_msgs', 'lifecycle_msgs', 'action_msgs', 'rosidl_parser',
               'memspec_ros.action', 'memspec_ros.msg', 'memspec_ros.srv')


def package_files():
    return sorted(PACKAGE.rglob('*.py'))


def python_files():
    """Every Python source of the project, scripts without a suffix included."""
    listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], cwd=ROOT,
                            capture_output=True, text=True, check=False).stdout.split('\n')
    paths = [ROOT / name for name in listed if name] or \
        [path for path in ROOT.rglob('*.py') if path.relative_to(ROOT).parts[0] != 'build']
    return sorted(path for path in paths if path.is_file() and is_python(path))


def is_python(path):
    if path.suffix:
        return path.suffix == '.py'
    with path.open('rb') as source:
        first = source.readline()
    return first.startswith(b'#!') and b'python' in first


def relative(path):
    return str(path.relative_to(ROOT))


def part_of(path):
    """``memspec_ros/models/decoder.py`` is of ``models``; the package's ``__init__`` of none."""
    names = path.relative_to(PACKAGE).with_suffix('').parts
    return '' if names == ('__init__',) else names[0]


def imported_modules(path):
    """Every module that a file imports, at any depth of its code, in full names."""
    package = ('memspec_ros', *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[:len(package) - node.level + 1] if node.level else ()
            module = '.'.join((*base, *filter(None, [node.module])))
            yield from (f'{module}.{alias.name}' for alias in node.names)


def within(module, names):
    return any(module == name or module.startswith(f'{name}.') for name in names)


@pytest.mark.parametrize('path', package_files(), ids=relative)
def test_imports_point_down(path):
    part = part_of(path)
    if not part:
        return
    assert part in MAY_IMPORT, f'{part} has no place in the order: give it one in MAY_IMPORT'
    core = () if part in CORE else CORE
    allowed = {f'memspec_ros.{name}' for name in (part, *core, *MAY_IMPORT[part])}
    allowed |= {'memspec_ros.__version__'}
    if part in ROS_PARTS:
        allowed |= {'memspec_ros.action', 'memspec_ros.msg', 'memspec_ros.srv'}
    ours = [name for name in imported_modules(path) if name.startswith('memspec_ros.')]
    assert [name for name in ours if not within(name, allowed)] == []


@pytest.mark.parametrize('path', package_files(), ids=relative)
def test_only_node_and_client_know_ros(path):
    if part_of(path) not in ROS_PARTS:
        assert [name for name in imported_modules(path) if within(name, ROS_MODULES)] == []


def test_a_file_that_breaks_the_order_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], 'PACKAGE', tmp_path)
    source = tmp_path / 'models' / 'bad.py'
    source.parent.mkdir()
    source.write_text('from memspec_ros.node import conversions\nfrom ..runtime import budget\n'
                      'def late():\n    import rclpy.action\n', encoding='utf-8')
    assert list(imported_modules(source)) == [
        'memspec_ros.node.conversions', 'memspec_ros.runtime.budget', 'rclpy.action']
    with pytest.raises(AssertionError, match=r'node\.conversions'):
        test_imports_point_down(source)
    with pytest.raises(AssertionError, match='rclpy'):
        test_only_node_and_client_know_ros(source)


@pytest.mark.parametrize('modules', ['memspec_ros, memspec_ros.config, memspec_ros.records',
                                     'memspec_ros.cli.main'])
def test_light_modules_import_nothing_heavy(modules):
    code = (f'import {modules}, sys\n'
            'heavy = {"torch", "numpy", "transformers", "rclpy", "tqdm"}\n'
            'print(sorted(heavy & set(sys.modules)))')
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, cwd=ROOT,
                          env={**os.environ, 'PYTHONPATH': str(ROOT)}, check=False)
    assert (done.stdout.strip(), done.stderr) == ('[]', '')


@pytest.mark.parametrize('path', python_files(), ids=relative)
def test_form(path):
    lines = path.read_text(encoding='utf-8').splitlines()
    start = 1 if lines and lines[0].startswith('#!') else 0
    assert lines[start:start + 2] == HEADER
    assert [f'line {number}: {len(line)} columns' for number, line in enumerate(lines, 1)
            if len(line) > MAX_COLUMNS] == []
    assert len(lines) <= MAX_FILE_LINES or not path.is_relative_to(PACKAGE), \
        f'{len(lines)} lines; a file holds one noun in about 250'


@pytest.mark.parametrize('path', package_files(), ids=relative)
def test_functions_are_short(path):
    tree = ast.parse(path.read_text(encoding='utf-8'))
    functions = [node for node in ast.walk(tree)
                 if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    assert [f'{node.name}: {body_lines(node)} lines' for node in functions
            if body_lines(node) > MAX_FUNCTION_LINES] == []


def body_lines(function):
    """Lines of a function's body without its docstring."""
    first = function.body[1:] if ast.get_docstring(function) else function.body
    return function.end_lineno - first[0].lineno + 1 if first else 0


def test_modules_of_tests_have_names_of_their_own():
    """pytest imports them by base name alone, since test folders are no packages."""
    names = [path.name for path in (ROOT / 'test').rglob('test_*.py')]
    assert sorted({name for name in names if names.count(name) > 1}) == []
