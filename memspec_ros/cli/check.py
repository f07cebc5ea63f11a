# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec check``: says before anything is loaded whether the node would start, and why not."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memspec_ros.cli import machine
from memspec_ros.cli.files import NamedFile, named_files
from memspec_ros.cli.options import add_settings_arguments, settings_from
from memspec_ros.config import Settings
from memspec_ros.errors import ConfigError, MemSpecError

if TYPE_CHECKING:
    from memspec_ros.runtime.budget import Budget


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``memspec check``."""
    parser.add_argument('file', nargs='?', metavar='FILE', help='the same as --params-file FILE')
    add_settings_arguments(parser)
    parser.add_argument('--memory', metavar='SIZE', default='', help='make the sum for another '
                        'machine, which has the device asked for and so much memory to give '
                        '(7.4GB, 7000MB, 6.9GiB), and not for this one')
    parser.add_argument('--json', action='store_true', help='print one JSON object')


def run(args: argparse.Namespace) -> int:
    """Print what was found; 0 when the node would start, 1 when not.

    :raises ConfigError: the params file itself is wrong.
    """
    args.params_file = args.file or args.params_file
    report = examine(settings_from(args), parse_bytes(args.memory) if args.memory else None)
    if args.json:
        print(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        print('\n'.join(report.lines()))
    return 0 if report.verdict == FITS else 1


SUMMED = ('target.model', 'draft.pool')
FITS = 'fits'
NO_FIT = 'does not fit'
FILES_MISSING = 'files missing'
NO_DEVICE = 'no such device'
UNUSABLE = 'cannot be used'


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a check found. ``budget`` is None when the files do not allow a sum.

    :param problem: why there is no sum, when no file is to blame.
    """

    versions: dict[str, str]
    device: dict[str, Any]
    files: tuple[NamedFile, ...]
    available_bytes: int
    budget: Budget | None = None
    problem: str = ''

    @property
    def verdict(self) -> str:
        """The first thing that keeps the node from starting; FITS when nothing does."""
        if any(file.problem for file in self.files):
            return FILES_MISSING
        if not self.device['available']:
            return NO_DEVICE
        if self.budget is None:
            return UNUSABLE
        return FITS if self.budget.fits else NO_FIT

    def as_json(self) -> dict[str, Any]:
        """Return the object that --json prints; sizes are in bytes."""
        budget = self.budget
        return {
            'verdict': self.verdict, 'problem': self.problem,
            'items': {item.name: item.num_bytes for item in budget.items} if budget else {},
            'sum': budget.total_bytes if budget else None,
            'available': budget.available_bytes if budget else self.available_bytes,
            'cache_capacity': budget.cache_capacity if budget else None,
            'largest_capacity': budget.largest_capacity if budget else None,
            'files': [vars(file) for file in self.files],
            'device': self.device, 'versions': self.versions}

    def lines(self) -> Iterator[str]:
        """Yield what is printed."""
        yield 'versions: ' + ', '.join(f'{name} {version}'
                                       for name, version in self.versions.items())
        yield f'device: {machine.describe(self.device)}'
        yield 'files:'
        for file in self.files:
            yield f'  {file.setting}: {file.problem or file.path}'
        yield 'memory:'
        yield self.budget.describe() if self.budget else f'  no sum: {self.problem or "see files"}'
        yield f'verdict: {self.verdict}'


def parse_bytes(text: str) -> int:
    """Return the bytes that a size names.

    :raises ConfigError: it is no size.
    """
    match = re.fullmatch(r'\s*(\d+(?:\.\d+)?)\s*([kMGT]i?)?B?\s*', text)
    if match is None:
        raise ConfigError(f'--memory is {text!r}; it must be a size such as 7.4GB, 7000MB or '
                          '6.9GiB')
    power = 'kMGT'.index(match[2][0]) + 1 if match[2] else 0
    base = 1024 if match[2] and match[2].endswith('i') else 1000
    return int(float(match[1]) * base ** power)


def examine(settings: Settings, memory_bytes: int | None = None) -> Report:
    """Look at everything that the settings name; nothing is loaded or downloaded.

    :param memory_bytes: memory of another machine that it is for; None is this one.
    """
    from memspec_ros.runtime.memory import available_bytes
    budget, problem = None, ''
    files = tuple(named_files(settings))
    device = machine.device(settings.target.device)
    if memory_bytes is not None:
        device = {'device': settings.target.device, 'available': True, 'elsewhere': True}
    if not device['available']:
        problem = f'target.device is {settings.target.device}, and there is no CUDA device here'
    # A draft that is not there yet takes part with the size that its pool states.
    elif not any(file.problem for file in files if file.setting in SUMMED):
        try:
            budget = memory_sum(settings, memory_bytes)
        except MemSpecError as error:
            problem = str(error)
    return Report(versions=machine.versions(), device=device, files=files,
                  available_bytes=available_bytes(), budget=budget, problem=problem)


def memory_sum(settings: Settings, memory_bytes: int | None = None) -> Budget:
    """Return the sum that configure would make, from the files' headers."""
    from memspec_ros.runtime.memory import Available
    from memspec_ros.runtime.survey import budget_of
    stated = None if memory_bytes is None else Available(host_bytes=memory_bytes, stated=True)
    return budget_of(settings, stated)
