# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The trace file: which draft gets what accepted where, as one safetensors file.

Tensors, with n goals in order:

``domain`` int32 [n]
    Index into the metadata's ``domains``.
``prompt_lengths``, ``output_lengths`` int32 [n], ``prompt_ids``, ``output_ids`` int32 [sum]
    Token ids, goals one after the other. The end token is not part of the output.
``ended`` bool [n]
    Whether an end token followed; else the limit ended the output.
``runs.<draft>`` uint8 [sum(output)]
    Per output position t how many of the draft's proposals for t, t + 1, ... are what follows:
    the run of true values in m[d][t], at most the metadata's ``steps``. A proposed end token
    ends the run, as it ends drafting.
``proposed.<draft>`` uint8 [sum(output)], for drafts that may have nothing to say
    How many tokens the draft proposes at t, at most.
``states`` fp16 [sum(prompt + output), hidden], optional
    The target's last hidden states of all positions of prompt and output but the last one of
    an output that did not end (whose row is zero), for predictors.

Metadata: ``format`` ``memspec-trace-1``, ``target`` (SHA-256 of its file), ``drafts`` (JSON, per
draft its domain, bytes and SHA-256), ``domains``, ``ids`` (JSON lists), ``steps``, ``max_tokens``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from memspec_ros.errors import DataError
from memspec_ros.models.safetensors_writer import write_safetensors
from memspec_ros.replay.goal_table import GoalTable

FORMAT = 'memspec-trace-1'


@dataclass(frozen=True, kw_only=True)
class TracedGoal:
    """One goal. ``runs`` and ``proposed`` have one number per output position, per draft."""

    id: str
    domain: str
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    ended: bool
    runs: Mapping[str, Sequence[int]]
    proposed: Mapping[str, Sequence[int]] = field(default_factory=dict)
    states: torch.Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class TracedDraft:
    """What a trace says of a draft: its domain, and the bytes and SHA-256 of its file."""

    domain: str
    num_bytes: int = 0
    checksum: str = ''


@dataclass(frozen=True, kw_only=True)
class AcceptanceTable:
    """The acceptance table of a pool on some goals.

    :param steps: draft length that was unrolled; no longer one can be replayed.
    :param max_tokens: the limit under which the outputs were made.
    :param target: fingerprint of the target.
    """

    goals: tuple[TracedGoal, ...]
    drafts: Mapping[str, TracedDraft]
    steps: int
    max_tokens: int
    target: str

    def goal_tables(self) -> list[GoalTable]:
        """The goals as replay takes them."""
        return [GoalTable(
            name=goal.id, domain=goal.domain, prompt_length=len(goal.prompt_ids),
            num_tokens=len(goal.output_ids), max_draft_length=self.steps, runs=goal.runs,
            proposed=goal.proposed,
            max_tokens=self.max_tokens if goal.ended else len(goal.output_ids))
            for goal in self.goals]

    def write(self, path: Path) -> None:
        """Write the file, beside and renamed.

        :raises DataError: the disk refuses it.
        """
        write_safetensors(path, self._tensors(), self._metadata())

    def _tensors(self) -> dict[str, torch.Tensor]:
        domains = self._domains()
        tensors = {
            'domain': _ints([domains.index(goal.domain) for goal in self.goals]),
            'ended': torch.tensor([goal.ended for goal in self.goals]),
            'prompt_lengths': _ints([len(goal.prompt_ids) for goal in self.goals]),
            'prompt_ids': _ints([token for goal in self.goals for token in goal.prompt_ids]),
            'output_lengths': _ints([len(goal.output_ids) for goal in self.goals]),
            'output_ids': _ints([token for goal in self.goals for token in goal.output_ids])}
        for kind in ('runs', 'proposed'):
            for draft in getattr(self.goals[0], kind) if self.goals else ():
                tensors[f'{kind}.{draft}'] = torch.tensor(
                    [run for goal in self.goals for run in getattr(goal, kind)[draft]],
                    dtype=torch.uint8)
        states = [goal.states for goal in self.goals if goal.states is not None]
        if states and len(states) == len(self.goals):
            tensors['states'] = torch.cat(states).half()
        return tensors

    def _metadata(self) -> dict[str, str]:
        return {'format': FORMAT, 'target': self.target, 'steps': str(self.steps),
                'max_tokens': str(self.max_tokens), 'domains': json.dumps(self._domains()),
                'ids': json.dumps([goal.id for goal in self.goals]),
                'drafts': json.dumps({name: vars(draft) for name, draft in self.drafts.items()})}

    def _domains(self) -> list[str]:
        return sorted({goal.domain for goal in self.goals})


def read_acceptance_table(path: Path, *, target: str = '') -> AcceptanceTable:
    """Read a trace file.

    :param target: fingerprint of the target that it must be of; '' takes any.
    :raises DataError: no such file, damaged, another format, or of another target.
    """
    try:
        with safe_open(path, 'pt') as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise DataError(f'trace {path} cannot be read: {error}') from error
    if metadata.get('format') != FORMAT:
        raise DataError(f"trace {path} has format '{metadata.get('format', 'none')}', not "
                        f"'{FORMAT}'")
    if target and metadata.get('target') != target:
        raise DataError(f'trace {path} is of a target with checksum '
                        f"{metadata.get('target', '')[:12]}, not {target[:12]}")
    try:
        return _table(tensors, metadata)
    except (KeyError, ValueError, IndexError, RuntimeError, TypeError) as error:
        raise DataError(f'trace {path} is damaged: {error!r}') from error


def _table(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> AcceptanceTable:
    ids, domains = json.loads(metadata['ids']), json.loads(metadata['domains'])
    lengths = tensors['output_lengths'].tolist()
    prompts = _split(tensors['prompt_ids'], tensors['prompt_lengths'].tolist())
    parts = {name: _split(tensor, lengths) for name, tensor in tensors.items()
             if name.startswith(('runs.', 'proposed.', 'output_ids'))}
    states: list[Any] = [None] * len(ids)
    if 'states' in tensors:
        sizes = [len(prompt) + length for prompt, length in zip(prompts, lengths, strict=True)]
        states = list(tensors['states'].split_with_sizes(sizes))
    goals = tuple(TracedGoal(
        id=name, domain=domains[int(tensors['domain'][index])], states=states[index],
        ended=bool(tensors['ended'][index]), prompt_ids=tuple(prompts[index]),
        output_ids=tuple(parts['output_ids'][index]), runs=_of(parts, 'runs.', index),
        proposed=_of(parts, 'proposed.', index)) for index, name in enumerate(ids))
    drafts = {name: TracedDraft(**draft)
              for name, draft in json.loads(metadata['drafts']).items()}
    return AcceptanceTable(goals=goals, drafts=drafts, steps=int(metadata['steps']),
                           max_tokens=int(metadata['max_tokens']), target=metadata['target'])


def _of(parts: Mapping[str, list[list[int]]], kind: str, index: int) -> dict[str, list[int]]:
    return {name[len(kind):]: values[index] for name, values in parts.items()
            if name.startswith(kind)}


def _split(values: torch.Tensor, lengths: list[int]) -> list[list[int]]:
    return [part.tolist() for part in values.split_with_sizes(lengths)]


def _ints(values: Sequence[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)
