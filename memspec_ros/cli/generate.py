# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec generate``: answers a prompt in this process, without ROS."""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING

from memspec_ros.cli.compare import compare
from memspec_ros.cli.goal import answer, open_runtime
from memspec_ros.cli.interrupt import Interrupt
from memspec_ros.cli.options import (
    add_request_arguments,
    add_settings_arguments,
    request_from,
    settings_from,
)
from memspec_ros.cli.output import ResultPrinter, add_output_arguments
from memspec_ros.records import Request

if TYPE_CHECKING:
    from memspec_ros.runtime.runtime import MemSpecRuntime


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``memspec generate``."""
    add_request_arguments(parser)
    add_settings_arguments(parser)
    group = add_output_arguments(parser)
    group.add_argument('--verbose', action='store_true',
                       help='tell on stderr what is loaded, with sizes')
    group.add_argument('--compare', type=int, nargs='?', const=3, default=0, metavar='ROUNDS',
                       help='measure plain decoding and speculation in turn (3 rounds) and '
                       'print both figures')


def run(args: argparse.Namespace) -> int:
    """Answer the prompt; 0 when the goal ended by itself, 1 when it failed.

    :raises MemSpecError: the request, a setting, a model file or the memory sum is wrong.
    """
    request, settings = request_from(args), settings_from(args)
    with contextlib.closing(open_runtime(settings, verbose=args.verbose)) as runtime, \
            Interrupt() as interrupt:
        if args.compare:
            return compare(runtime, request, interrupt, rounds=args.compare, as_json=args.json)
        return print_answer(runtime, request, interrupt, args)


def print_answer(runtime: MemSpecRuntime, request: Request, interrupt: Interrupt,
                 args: argparse.Namespace) -> int:
    """Stream the answer and print how it went."""
    printer = ResultPrinter(as_json=args.json, quiet=args.quiet)
    return printer.finish(answer(runtime, request, interrupt, printer.show))
