# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The prompts that are measured: a workload per domain, the same sample in every run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memspec_ros.errors import ConfigError, DataError
from memspec_ros.training.prompts import read_prompts

PAPER_WORKLOADS = {'general': 'Alpaca', 'code': 'LiveCodeBench', 'math': 'Omni-MATH',
                   'law': 'MMLU-Law', 'medical': 'MMLU-Medical'}
STAND_INS = {'general': 'self_instruct_user.jsonl'}
"""Where a domain has several files, the one that stands for the paper's set."""


@dataclass(frozen=True, kw_only=True)
class BenchPrompt:
    """One prompt: its id and text."""

    id: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One set of prompts."""

    name: str
    prompts: tuple[BenchPrompt, ...]


def open_workloads(sources: Sequence[str], *, num_prompts: int, seed: int = 0) -> list[Workload]:
    """Read workloads.

    :param sources: NAME=FILE (JSON lines with id and prompt), or a folder with a folder per
        domain; of the latter the paper's five are taken, the first in the paper's order.
    :param num_prompts: how many are drawn of each; fewer where a set is smaller.
    :raises ConfigError: a source is neither.
    :raises DataError: a file cannot be read, or has no prompts.
    """
    files: dict[str, list[Path]] = {}
    for source in sources:
        name, is_named, path = source.partition('=')
        if is_named:
            files.setdefault(name, []).append(Path(path))
        elif Path(source).is_dir():
            files.update(_folder(Path(source)))
        else:
            raise ConfigError(f"workload '{source}' is neither NAME=FILE nor a folder")
    return [_sampled(name, paths, num_prompts, seed) for name, paths in files.items()]


def _folder(folder: Path) -> dict[str, list[Path]]:
    found = {}
    for name in PAPER_WORKLOADS:
        paths = sorted((folder / name).glob('*.jsonl'))
        stand_in = folder / name / STAND_INS.get(name, '')
        if paths:
            found[name] = [stand_in] if stand_in.is_file() else paths
    if not found:
        raise ConfigError(f'{folder} has none of the folders {", ".join(PAPER_WORKLOADS)}')
    return found


def _sampled(name: str, paths: Sequence[Path], num_prompts: int, seed: int) -> Workload:
    prompts = [BenchPrompt(id=row['id'], text=row['prompt']) for path in paths
               for row in read_prompts(str(path), domain=name)]
    if not prompts:
        raise DataError(f"workload '{name}' has no prompts")
    random.Random(seed).shuffle(prompts)
    return Workload(name=name, prompts=tuple(prompts[:num_prompts]))
