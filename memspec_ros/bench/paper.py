# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the paper states in numbers (paper.yaml), each with where it is stated."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name('paper.yaml')


@functools.cache
def document() -> dict[str, Any]:
    """Return the file's content."""
    content: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding='utf-8'))
    return content


def values(name: str) -> dict[str, Any]:
    """Return one section's numbers, without their sources."""
    return {key: _value(item) for key, item in document()[name].items()}


def sources(name: str) -> str:
    """Return where one section's numbers are stated, in words."""
    found = dict.fromkeys(_sources(document()[name]))
    return '; '.join(source for source in found if source != 'the base')


def note(figure: str) -> str:
    """Return what the paper says of a figure without numbers."""
    return str(document()['notes'].get(figure, ''))


def _value(item: Any) -> Any:
    if isinstance(item, dict) and 'value' in item:
        return item['value']
    return {key: _value(inner) for key, inner in item.items()} if isinstance(item, dict) else item


def _sources(item: Any) -> list[str]:
    if isinstance(item, dict) and 'value' in item:
        return [str(item['source'])]
    return [source for inner in item.values() for source in _sources(inner)]
