# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A progress bar where somebody watches, and nothing where a program reads."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar('Item')


def progress_bar(items: Iterable[Item], *, total: int, label: str) -> Iterable[Item]:
    """Return the items, with a bar on stderr when that is a terminal."""
    if not sys.stderr.isatty():
        return items
    from tqdm import tqdm  # type: ignore[import-untyped]
    bar: Iterable[Item] = tqdm(items, total=total, desc=label, leave=False, file=sys.stderr)
    return bar
