# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Folders that models must lie in, for a robot whose parameters others may write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from memspec_ros.errors import ConfigError


class ModelRoots:
    """The folders of ``server.model_roots``; none is anywhere.

    :param folders: with ``~``; one that does not exist holds nothing.
    """

    def __init__(self, folders: Sequence[str] = ()) -> None:
        self._folders = tuple(Path(folder).expanduser().resolve() for folder in folders)

    def require(self, path: Path, what: str) -> Path:
        """Return a path whose files all lie in one of the folders, links followed.

        :param what: the setting or draft that names it, for the message.
        :raises ConfigError: one does not; nothing of it was read.
        """
        if self._folders:
            for file in _files(path):
                if not any(file.resolve().is_relative_to(folder) for folder in self._folders):
                    raise ConfigError(
                        f'{what} is {file.resolve()}, which is outside of server.model_roots '
                        f'({", ".join(map(str, self._folders))})')
        return path


def _files(path: Path) -> Iterator[Path]:
    """Yield a path and, of a folder, all that is directly in it: that is what models read."""
    yield path
    if path.is_dir():
        yield from sorted(path.iterdir())
