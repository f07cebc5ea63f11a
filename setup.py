# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Build a wheel for machines without ROS by driving the CMakeLists.txt that colcon builds.

CMake installs into a staging prefix; the wheel takes the Python package from it, and the rest
(interface libraries, headers, ament index, launch and config files) as data of the environment.
The build folder is kept, so a rebuild after a change of Python files takes a second or two.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_ext import build_ext

PACKAGE = 'memspec_ros'
ROOT = Path(__file__).resolve().parent


def build_folder():
    """Return a folder of this environment: two of them must not undo each other's builds."""
    key = hashlib.sha256(repr((sys.prefix, sys.version)).encode()).hexdigest()[:8]
    return ROOT / 'build' / f'pip-{sys.implementation.cache_tag}-{key}'


BUILD = build_folder()
STAGING = BUILD / 'prefix'
GENERATORS = 'share/rosidl_default_generators/package.xml'


class PlatformDistribution(Distribution):
    """A distribution that is never pure: its interfaces are compiled."""

    def has_ext_modules(self):
        """Return that there is something to compile."""
        return True


class CMakeBuild(build_ext):
    """Configure, build and install with CMake, then hand the result to the wheel."""

    def run(self):
        """Run all steps; setuptools calls this in place of compiling extension modules."""
        if self.editable_mode:
            raise SystemExit(f'{PACKAGE} cannot be installed editable, since its interfaces are '
                             'generated: run "pip install .", then work from the source folder, '
                             'whose modules come first on sys.path')
        prefixes = find_ros_prefixes()
        cmake = cmake_command()
        configure(cmake, prefixes)
        shutil.rmtree(STAGING, ignore_errors=True)
        run([cmake, '--build', str(BUILD)], prefixes)
        run([cmake, '--install', str(BUILD)], prefixes)
        self._take_package()
        self.distribution.data_files = list_data_files()

    def _take_package(self):
        target = Path(self.build_lib) / PACKAGE
        shutil.rmtree(target, ignore_errors=True)
        (source,) = STAGING.glob(f'lib*/python3*/*-packages/{PACKAGE}')
        shutil.copytree(source, target, ignore=shutil.ignore_patterns('*.c'))

    def get_outputs(self):
        """Return the files of the package, as setuptools asks."""
        return [str(path) for path in (Path(self.build_lib) / PACKAGE).rglob('*')
                if path.is_file()]


def find_ros_prefixes():
    """Return the prefixes to build against: those sourced, else that of the ROS wheels."""
    sourced = [Path(entry) for entry in os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep)
               if entry]
    installed = [Path(sys.prefix)] + [Path(entry).parents[2] for entry in sys.path
                                      if Path(entry).name.endswith('-packages')]
    for prefixes in (sourced, *([prefix] for prefix in installed)):
        if any((prefix / GENERATORS).is_file() for prefix in prefixes):
            return prefixes
    raise SystemExit(
        f'{PACKAGE} needs the ROS 2 interface generators to build and found none in '
        f'AMENT_PREFIX_PATH ({sourced or "not set"}) nor in {sys.prefix}: source a ROS 2 '
        'distribution, or install the packages that pyproject.toml lists under [build-system]')


def cmake_command():
    """Return the path of CMake: the wheel's, which is known to be new enough, or any on PATH."""
    try:
        import cmake
    except ImportError:
        found = shutil.which('cmake')
    else:
        found = str(Path(cmake.CMAKE_BIN_DIR) / 'cmake')
    if not found:
        raise SystemExit(f'{PACKAGE} needs CMake to build: pip install cmake ninja')
    return found


def configure(cmake, prefixes):
    """Configure, from scratch when the last time was with other arguments or failed."""
    arguments = [
        f'-S{ROOT}', f'-B{BUILD}', '-DBUILD_TESTING=OFF', '-DCMAKE_BUILD_TYPE=Release',
        f'-DCMAKE_INSTALL_PREFIX={STAGING}', f'-DPython3_EXECUTABLE={sys.executable}',
        f'-DCMAKE_PROJECT_{PACKAGE}_INCLUDE='
        f'{ROOT / "cmake" / "drop_missing_include_directories.cmake"}']
    if shutil.which('ninja', path=build_environment(prefixes)['PATH']):
        arguments.append('-GNinja')
    key = hashlib.sha256(repr((cmake, arguments, prefixes, sys.version)).encode()).hexdigest()
    stamp = BUILD / 'configured'
    if not stamp.is_file() or stamp.read_text(encoding='utf-8') != key:
        shutil.rmtree(BUILD, ignore_errors=True)
        run([cmake, *arguments], prefixes)
        stamp.write_text(key, encoding='utf-8')


def build_environment(prefixes):
    """Return the environment in which CMake and the generators find the prefixes and ninja."""
    joined = os.pathsep.join(map(str, prefixes))
    path = os.pathsep.join([os.environ.get('PATH', os.defpath), str(Path(sys.executable).parent)])
    return {**os.environ, 'AMENT_PREFIX_PATH': joined, 'CMAKE_PREFIX_PATH': joined, 'PATH': path}


def run(command, prefixes):
    """Run one build command; its output is the build's."""
    subprocess.run(command, check=True, env=build_environment(prefixes))


def list_data_files():
    """Return (folder, files) of the staging prefix, without the Python packages."""
    folders = {}
    for path in sorted(STAGING.rglob('*')):
        relative = path.relative_to(STAGING)
        if path.is_file() and not any(part.endswith('-packages') for part in relative.parts):
            folders.setdefault(str(relative.parent), []).append(str(path.relative_to(ROOT)))
    return list(folders.items())


os.chdir(ROOT)
setup(distclass=PlatformDistribution, cmdclass={'build_ext': CMakeBuild}, packages=[],
      py_modules=[])
