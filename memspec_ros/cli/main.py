# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``memspec`` command: finds the subcommand, runs it, and turns errors into one line.

Exit codes: 0 done, 1 the goal failed (or was cancelled), 2 the usage, a setting or a model file
is wrong, 130 interrupted before there was a goal.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from memspec_ros import __version__
from memspec_ros.errors import MemSpecError, did_you_mean

OK = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class Command:
    """A subcommand: a module with ``add_arguments(parser)`` and ``run(args) -> int``."""

    module: str
    summary: str


COMMANDS = {
    'generate': Command(module='memspec_ros.cli.generate',
                        summary='answer a prompt in this process, without ROS'),
    'node': Command(module='memspec_ros.cli.node', summary='run the ROS 2 node'),
    'send': Command(module='memspec_ros.cli.send',
                    summary='send a goal to a running node and stream the answer'),
    'monitor': Command(module='memspec_ros.cli.monitor',
                       summary="show a running node's topics as a dashboard"),
    'check': Command(module='memspec_ros.cli.check',
                     summary='preflight: versions, device, files, the memory sum'),
    'pool': Command(module='memspec_ros.cli.pool', summary='show or extend a pool of drafts'),
    'quantize': Command(module='memspec_ros.cli.quantize',
                        summary='write a model as 4-bit GPTQ, or as a draft of 8 or 4 bits'),
    'corpus': Command(module='memspec_ros.training.corpus',
                      summary='let the target answer prompts, to train drafts on'),
    'distill': Command(module='memspec_ros.training.distill',
                       summary='train a pool of drafts on a corpus'),
    'trace': Command(module='memspec_ros.training.trace',
                     summary='make the acceptance table of a pool'),
    'train-predictor': Command(module='memspec_ros.training.predictor',
                               summary='train the predictors on a trace'),
    'bench': Command(module='memspec_ros.cli.bench',
                     summary='measure strategies, workloads and peers'),
    'report': Command(module='memspec_ros.bench.report',
                      summary='draw the figures and tables of a measurement'),
}


def exists(command: Command) -> bool:
    """Whether the command's module is in this installation, found without importing it."""
    try:
        return importlib.util.find_spec(command.module) is not None
    except ModuleNotFoundError:
        return False


def make_parser(chosen: str) -> argparse.ArgumentParser:
    """Return the parser; only the chosen command's module is imported, for its arguments."""
    parser = argparse.ArgumentParser(
        prog='memspec', description='Memory-aware speculative decoding for robots.')
    parser.add_argument('--version', action='version', version=f'memspec_ros {__version__}')
    parser.add_argument('--debug', action='store_true', help='show tracebacks of errors')
    commands = parser.add_subparsers(dest='command', metavar='COMMAND', required=True)
    for name, command in COMMANDS.items():
        if exists(command):
            child = commands.add_parser(name, help=command.summary, description=command.summary)
            child.add_argument('--debug', action='store_true', default=argparse.SUPPRESS,
                               help='show tracebacks of errors')
            if name == chosen:
                importlib.import_module(command.module).add_arguments(child)
    return parser


def chosen_command(argv: Sequence[str]) -> str:
    """The first argument that is no option, or nothing."""
    return next((word for word in argv if not word.startswith('-')), '')


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = '--debug' in words
    try:
        code = run(words)
        sys.stdout.flush()
        return code
    except MemSpecError as error:
        if debug:
            raise
        return complain(str(error), USAGE)
    except ModuleNotFoundError as error:
        if debug or is_ours(error.name or ''):
            raise
        return complain(missing_package(error.name or ''), USAGE)
    except KeyboardInterrupt:
        return complain('interrupted', INTERRUPTED)
    except BrokenPipeError:
        # The reader has left; keep the interpreter from flushing into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def run(words: list[str]) -> int:
    """Parse and run; raises what the command raises."""
    chosen = chosen_command(words)
    known = [name for name, command in COMMANDS.items() if exists(command)]
    if chosen and chosen not in known:
        return complain(f"there is no command '{chosen}'{did_you_mean(chosen, known)} "
                        f"(known: {', '.join(known)})", USAGE)
    args = make_parser(chosen).parse_args(words)
    code: int = importlib.import_module(COMMANDS[args.command].module).run(args)
    return code


def complain(message: str, code: int) -> int:
    """Print a message on stderr and return the code."""
    print(f'memspec: {message}', file=sys.stderr)
    return code


def is_ours(module: str) -> bool:
    """Whether a missing module is a fault of this package and not of its surroundings."""
    return module.startswith('memspec_ros') and \
        not module.startswith(('memspec_ros.action', 'memspec_ros.msg', 'memspec_ros.srv'))


def missing_package(module: str) -> str:
    """Say which package is not there and how to get it."""
    name = module.partition('.')[0]
    if name == 'rclpy' or is_interface(module):
        return (f'{module} cannot be imported: source a ROS 2 distribution and the workspace '
                'that this package was built in (source install/setup.bash)')
    return f'the Python package {name} is not installed: python3 -m pip install {name}'


def is_interface(module: str) -> bool:
    """Whether a module is one that rosidl generates."""
    return module.startswith(('memspec_ros.action', 'memspec_ros.msg', 'memspec_ros.srv')) or \
        module.partition('.')[0].endswith(('_msgs', '_srvs', '_interfaces'))
