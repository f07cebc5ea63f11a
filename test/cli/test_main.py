# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``memspec`` command: help, unknown commands, and errors in one line."""

import subprocess
import sys
import types

import pytest

from memspec_ros import __version__
from memspec_ros.cli import main
from memspec_ros.errors import ModelNotFoundError


@pytest.fixture
def command(monkeypatch):
    """Register a command ``probe`` that runs a function."""
    def register(run):
        module = types.ModuleType('memspec_probe')
        module.__spec__ = types.SimpleNamespace(name='memspec_probe')
        module.add_arguments = lambda parser: parser.add_argument('--size', type=int, default=1)
        module.run = run
        monkeypatch.setitem(sys.modules, 'memspec_probe', module)
        monkeypatch.setitem(main.COMMANDS, 'probe',
                            main.Command(module='memspec_probe', summary='a probe'))
    return register


def raiser(error):
    def run(_args):
        raise error
    return run


def test_help_lists_the_commands_that_exist(capsys, monkeypatch):
    monkeypatch.setitem(main.COMMANDS, 'absent',
                        main.Command(module='memspec_ros.absent.absent', summary='not there'))
    with pytest.raises(SystemExit) as end:
        main.main(['--help'])
    out = capsys.readouterr().out
    assert end.value.code == 0
    assert 'answer a prompt in this process, without ROS' in out
    assert 'absent' not in out


def test_version(capsys):
    with pytest.raises(SystemExit):
        main.main(['--version'])
    assert capsys.readouterr().out == f'memspec_ros {__version__}\n'


def test_an_unknown_command_names_the_nearest(capsys):
    assert main.main(['generat', 'x']) == 2
    assert "there is no command 'generat'; did you mean 'generate'? (known: generate" in \
        capsys.readouterr().err


def test_the_commands_code_is_the_exit_code(command):
    command(lambda args: args.size)
    assert main.main(['probe', '--size', '1']) == 1


def test_an_error_is_one_line_unless_debug_asks_for_more(command, capsys):
    command(raiser(ModelNotFoundError('a.gguf is missing: get it')))
    assert main.main(['probe']) == 2
    assert capsys.readouterr().err == 'memspec: a.gguf is missing: get it\n'
    for words in (['--debug', 'probe'], ['probe', '--debug']):
        with pytest.raises(ModelNotFoundError):
            main.main(words)


@pytest.mark.parametrize(('module', 'message'), [
    ('rclpy', 'source a ROS 2 distribution'),
    ('memspec_ros.action', 'source a ROS 2 distribution'),
    ('std_msgs.msg', 'source a ROS 2 distribution'),
    ('torch', 'python3 -m pip install torch'),
])
def test_a_package_that_is_missing_is_named(command, capsys, module, message):
    command(raiser(ModuleNotFoundError('no', name=module)))
    assert main.main(['probe']) == 2
    err = capsys.readouterr().err
    assert module in err
    assert message in err


def test_a_fault_of_ours_keeps_its_traceback(command):
    command(raiser(ModuleNotFoundError('no', name='memspec_ros.modles')))
    with pytest.raises(ModuleNotFoundError):
        main.main(['probe'])


def test_an_interrupt_ends_quietly(command, capsys):
    command(raiser(KeyboardInterrupt()))
    assert main.main(['probe']) == 130
    assert capsys.readouterr().err == 'memspec: interrupted\n'


def test_a_reader_that_leaves_is_no_error():
    code = ('import sys, types; from memspec_ros.cli import main\n'
            'module = types.ModuleType("probe"); sys.modules["probe"] = module\n'
            'module.__spec__ = types.SimpleNamespace(name="probe")\n'
            'module.add_arguments = lambda parser: None\n'
            'module.run = lambda args: print("x" * 1_000_000) or 0\n'
            'main.COMMANDS["probe"] = main.Command(module="probe", summary="")\n'
            'sys.exit(main.main(["probe"]))')
    process = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdout.read(10)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), err) == (1, b'')
