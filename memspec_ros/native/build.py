# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Build the native library for a source tree: ``python -m memspec_ros.native.build``.

It goes to build/native, where a decoder of this tree finds it first. An installed package has
its own, built with the interfaces.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
BUILD = SOURCE.parents[1] / 'build' / 'native'


def find_cmake() -> str:
    """Return a CMake: that of this environment, or of the path; exits with advice if none."""
    found = shutil.which('cmake', path=str(Path(sys.executable).parent)) or shutil.which('cmake')
    if found is None:
        sys.exit('no cmake: install it with your system, or with pip install cmake')
    return found


def main(arguments: list[str] | None = None) -> int:
    """Configure and build; returns the exit status of the step that failed, or 0."""
    parser = argparse.ArgumentParser(prog='python -m memspec_ros.native.build',
                                     description=__doc__.partition('\n')[0])
    parser.add_argument('--define', metavar='NAME=VALUE', action='append', default=[],
                        help='a CMake setting, for example CMAKE_CXX_COMPILER=clang++')
    options = parser.parse_args(arguments)
    cmake = find_cmake()
    settings = [f'-D{define}' for define in ('CMAKE_BUILD_TYPE=Release', *options.define)]
    steps = ([cmake, '-S', str(SOURCE), '-B', str(BUILD), *settings],
             [cmake, '--build', str(BUILD), '--parallel', '2'])
    for step in steps:
        status = subprocess.run(step, check=False).returncode
        if status:
            return status
    return 0


if __name__ == '__main__':
    sys.exit(main())
