# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Settings and requests from command-line options, the same for every subcommand."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import memspec_ros
from memspec_ros.config import POLICIES, ParameterSpec, Settings, parameter_specs, read_params_file
from memspec_ros.errors import ConfigError, did_you_mean
from memspec_ros.records import ADAPTIVE_DRAFT_LENGTH, ChatMessage, Request, SamplingOptions

DEFAULT_PARAMS_FILE = 'demo.yaml'
PARAMETERS_OF_ROS = ('use_sim_time', 'qos_overrides.', 'start_type_description_service')


def add_settings_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that settings are made from."""
    group = parser.add_argument_group('settings')
    group.add_argument('--params-file', metavar='FILE', default=DEFAULT_PARAMS_FILE,
                       help='ROS 2 params file; a bare name is also looked for among the files '
                       'that ship (default: %(default)s)')
    group.add_argument('--param', metavar='NAME=VALUE', action='append', default=[],
                       help='set one parameter, e.g. runtime.cache_capacity=3; may be repeated')
    group.add_argument('--policy', metavar='NAME', help='runtime.policy: ' + ', '.join(POLICIES))


def add_request_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the prompt and the options that a goal has, and return the group of the goal's."""
    parser.add_argument('prompt', metavar='PROMPT', help='what to answer; - reads stdin')
    group = parser.add_argument_group('goal')
    group.add_argument('--system', metavar='TEXT', default='', help='system message')
    group.add_argument('--raw', action='store_true',
                       help='take the prompt literally, without the chat template')
    group.add_argument('--max-tokens', type=int, default=0, metavar='N',
                       help='tokens to generate at most (default: server.default_max_tokens)')
    group.add_argument('--stop', action='append', default=[], metavar='TEXT',
                       help='end before this text; may be repeated')
    group.add_argument('--timeout', type=float, default=0.0, metavar='SECONDS',
                       help='end after so long, waiting included (0: never)')
    group.add_argument('--draft', metavar='NAME', default='', help='draft to start with')
    group.add_argument('--draft-length', type=int, default=ADAPTIVE_DRAFT_LENGTH, metavar='N',
                       help='tokens drafted per iteration; 0 is plain decoding, -1 adaptive '
                       '(default)')
    add_sampling_arguments(parser.add_argument_group('sampling (greedy by default)'))
    return group


def add_sampling_arguments(group: argparse._ArgumentGroup) -> None:
    """Add what :class:`SamplingOptions` has, with its defaults."""
    defaults = SamplingOptions()
    group.add_argument('--temperature', type=float, default=defaults.temperature, metavar='X')
    group.add_argument('--top-p', type=float, default=defaults.top_p, metavar='X')
    group.add_argument('--top-k', type=int, default=defaults.top_k, metavar='N')
    group.add_argument('--min-p', type=float, default=defaults.min_p, metavar='X')
    group.add_argument('--repetition-penalty', type=float, metavar='X',
                       default=defaults.repetition_penalty)
    group.add_argument('--seed', type=int, default=None, metavar='N')


def request_from(args: argparse.Namespace) -> Request:
    """Return the goal that the options describe.

    :raises ConfigError: --system together with --raw.
    :raises RequestError: an option is out of its range.
    """
    if args.system and args.raw:
        raise ConfigError('--system needs the chat template, which --raw leaves out: '
                          'give one of them')
    prompt = sys.stdin.read() if args.prompt == '-' else args.prompt
    sampling = SamplingOptions(
        temperature=args.temperature, top_p=args.top_p, top_k=args.top_k, min_p=args.min_p,
        repetition_penalty=args.repetition_penalty, seed=args.seed)
    messages = (ChatMessage(role='system', content=args.system),
                ChatMessage(role='user', content=prompt)) if args.system else ()
    return Request(
        prompt='' if messages else prompt, messages=messages, raw_prompt=args.raw,
        sampling=sampling, max_tokens=args.max_tokens, stop=tuple(args.stop),
        timeout_s=args.timeout, priority=getattr(args, 'priority', 0), draft_hint=args.draft,
        draft_length=args.draft_length)


def settings_from(args: argparse.Namespace) -> Settings:
    """Return the settings of the params file, changed by --param and --policy.

    :raises ConfigError: no such file, or a parameter that is unknown or out of range.
    """
    path = find_params_file(args.params_file)
    try:
        settings = Settings.from_parameters(own_parameters(read_params_file(path)))
    except ConfigError as error:
        raise error if str(path) in str(error) else ConfigError(f'{path}: {error}') from error
    return settings.replace(overrides_from(args))


def own_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters without those that every ROS node has."""
    return {name: value for name, value in parameters.items()
            if not name.startswith(PARAMETERS_OF_ROS)}


def overrides_from(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters given one by one, by dotted name.

    :raises ConfigError: not NAME=VALUE, an unknown name, or text that is no such value.
    """
    overrides = dict(read_assignment(text) for text in args.param)
    if args.policy:
        overrides['runtime.policy'] = args.policy
    return overrides


def read_assignment(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE; the parameter's own type says how the value is written."""
    specs = {spec.name: spec for spec in parameter_specs()}
    name, equals, value = text.partition('=')
    if not equals:
        raise ConfigError(f"--param '{text}' must be NAME=VALUE, "
                          'e.g. runtime.cache_capacity=3')
    if name not in specs:
        raise ConfigError(f"there is no parameter '{name}'{did_you_mean(name, specs)}")
    return name, read_value(specs[name], value)


def read_value(spec: ParameterSpec, text: str) -> Any:
    """Read a parameter's value; lists are separated by commas.

    :raises ConfigError: naming the parameter, the text and the type.
    """
    wanted = type(spec.default)
    try:
        if wanted is bool:
            return {'true': True, 'false': False}[text.lower()]
        if wanted is tuple:
            return tuple(item for item in text.split(',') if item)
        return wanted(text)
    except (KeyError, ValueError):
        kind = 'true or false' if wanted is bool else f'a number ({wanted.__name__})'
        raise ConfigError(f"{spec.name} is '{text}'; it must be {kind}") from None


def find_params_file(name: str) -> Path:
    """Return the file of this path, or the one of this name that ships with the package.

    :raises ConfigError: naming the places that were looked in.
    """
    path = Path(name)
    if path.exists() or path.name != name:
        return path
    places = list(dict.fromkeys(config_folders()))
    for folder in places:
        if (folder / name).is_file():
            return folder / name
    raise ConfigError(f'params file {name} is neither here nor in '
                      f'{", ".join(map(str, places)) or "a share folder"}: '
                      'name one with --params-file')


def config_folders() -> Iterator[Path]:
    """Where params files ship: beside the package in the source tree, else in a share folder."""
    for package in map(Path, memspec_ros.__path__):
        if (package.parent / 'package.xml').is_file():
            yield package.parent / 'config'
    prefixes = os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep)
    installed = [*Path(memspec_ros.__file__).parents, *map(Path, filter(None, prefixes)),
                 Path(sys.prefix)]
    for prefix in installed:
        folder = prefix / 'share' / 'memspec_ros' / 'config'
        if folder.is_dir():
            yield folder
