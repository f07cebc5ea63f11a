# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The prompts that are measured: a workload per domain, the same sample in every run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memspec_ros.errors import ConfigError, DataError, did_you_mean
from memspec_ros.training.prompts import read_prompts

PAPER_WORKLOADS = {'general': 'Alpaca', 'code': 'LiveCodeBench', 'math': 'Omni-MATH',
                   'law': 'MMLU-Law', 'medical': 'MMLU-Medical'}
ALL_DOMAINS = (*PAPER_WORKLOADS, 'robot')
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


def open_workloads(sources: Sequence[str], *, domains: Sequence[str] = (), num_prompts: int = 0,
                   seed: int = 0) -> list[Workload]:
    """Read workloads, each in an order that depends on the seed alone.

    :param sources: a folder with a folder per domain; FILE (JSON lines with id, domain and
        prompt), a workload per domain; or NAME=FILE, one workload.
    :param domains: which ones, in this order; none named takes the paper's five of a folder and
        all of a file.
    :param num_prompts: how many are drawn of each, fewer where a set is smaller; 0 is all.
    :raises ConfigError: a source is none of these, or a domain is in none of them.
    :raises DataError: a file cannot be read, or has no prompts.
    """
    found: dict[str, list[BenchPrompt]] = {}
    for source in sources:
        for name, prompts in _read(source, domains).items():
            found.setdefault(name, []).extend(prompts)
    for name in domains:
        if name not in found:
            raise ConfigError(f"there are no prompts of domain '{name}'"
                              f'{did_you_mean(name, found)} (there are of '
                              f'{", ".join(found) or "none"})')
    return [_sampled(name, found[name], num_prompts, seed) for name in domains or found]


def _read(source: str, domains: Sequence[str]) -> dict[str, list[BenchPrompt]]:
    name, is_named, path = source.partition('=')
    if is_named:
        return {name: _prompts([Path(path)], name)}
    if Path(source).is_dir():
        return {name: _prompts(paths, name)
                for name, paths in _folder(Path(source), domains).items()}
    if not Path(source).is_file():
        raise ConfigError(f"workload '{source}' is neither NAME=FILE nor a file or folder")
    found: dict[str, list[BenchPrompt]] = {}
    for row in read_prompts(source, domain=Path(source).stem):
        found.setdefault(row['domain'], []).append(
            BenchPrompt(id=row['id'], text=row['prompt']))
    return found


def _folder(folder: Path, domains: Sequence[str]) -> dict[str, list[Path]]:
    found = {}
    for name in domains or PAPER_WORKLOADS:
        paths = sorted((folder / name).glob('*.jsonl'))
        stand_in = folder / name / STAND_INS.get(name, '')
        if paths:
            found[name] = [stand_in] if stand_in.is_file() else paths
    if not found:
        raise ConfigError(f'{folder} has none of the folders '
                          f'{", ".join(domains or PAPER_WORKLOADS)}')
    return found


def _prompts(paths: Sequence[Path], name: str) -> list[BenchPrompt]:
    return [BenchPrompt(id=row['id'], text=row['prompt']) for path in paths
            for row in read_prompts(str(path), domain=name)]


def _sampled(name: str, prompts: Sequence[BenchPrompt], num_prompts: int,
             seed: int) -> Workload:
    if not prompts:
        raise DataError(f"workload '{name}' has no prompts")
    drawn = list(prompts)
    random.Random(seed).shuffle(drawn)
    return Workload(name=name, prompts=tuple(drawn[:num_prompts or None]))
