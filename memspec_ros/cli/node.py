# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec node``: runs the ROS 2 node with a params file."""

from __future__ import annotations

import argparse
import json

from memspec_ros.cli.options import (
    add_settings_arguments,
    find_params_file,
    overrides_from,
    settings_from,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``memspec node``."""
    add_settings_arguments(parser)
    parser.add_argument('--ros-args', nargs=argparse.REMAINDER, default=[], metavar='...',
                        help='what follows goes to ROS, e.g. -r __ns:=/robot --log-level debug')


def run(args: argparse.Namespace) -> int:
    """Run the node until it is asked to end; return its exit code.

    The settings are read here too, so that a mistake in them is one line and no node starts.

    :raises ConfigError: no such file, or a parameter that is unknown or out of range.
    """
    settings_from(args)
    from memspec_ros.node.main import main
    return main(ros_arguments(args))


def ros_arguments(args: argparse.Namespace) -> list[str]:
    """Return the arguments as rcl takes them; parameters given one by one win over the file."""
    words = ['--ros-args', '--params-file', str(find_params_file(args.params_file))]
    for name, value in overrides_from(args).items():
        # A JSON value is a YAML value, and quotes keep text such as 1e5 a string.
        words += ['-p', f'{name}:={json.dumps(value)}']
    return [*words, *args.ros_args]
