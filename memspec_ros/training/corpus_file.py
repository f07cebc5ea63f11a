# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The corpus file: what the target answered, as one safetensors file.

Tensors, with n answers in the order of the prompts:

``domain`` int32 [n]
    Index into the metadata's ``domains``.
``prompt_lengths``, ``output_lengths`` int32 [n] and ``prompt_ids``, ``output_ids`` int32 [sum]
    Token ids, answers one after the other; an end token is the last of its answer.
``states`` fp16 [sum(prompt + output - 1), hidden], optional
    The target's last hidden states (after the final norm) of all positions but the last output
    token's, so that distillation need not run the target again.

Metadata: ``format`` ``memspec-corpus-1``, ``domains``, ``ids`` (JSON lists) and ``target``, the
target file's SHA-256. Files are written beside and renamed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from memspec_ros.errors import DataError
from memspec_ros.models.safetensors_writer import write_safetensors

FORMAT = 'memspec-corpus-1'


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """One prompt and the target's answer. ``states`` is [prompt + output - 1, hidden] or None."""

    id: str
    domain: str
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    states: torch.Tensor | None = None

    @property
    def num_states(self) -> int:
        """Positions that have a state: all but the last output token's."""
        return len(self.prompt_ids) + len(self.output_ids) - 1


def write_corpus(path: Path, conversations: Sequence[Conversation], *, target: str) -> None:
    """Write a corpus file, beside and renamed; states are kept when all have them.

    :param target: fingerprint of the target.
    :raises DataError: the disk refuses it.
    """
    domains = sorted({item.domain for item in conversations})
    tensors = {
        'domain': _ints([domains.index(item.domain) for item in conversations]),
        'prompt_lengths': _ints([len(item.prompt_ids) for item in conversations]),
        'prompt_ids': _ints([token for item in conversations for token in item.prompt_ids]),
        'output_lengths': _ints([len(item.output_ids) for item in conversations]),
        'output_ids': _ints([token for item in conversations for token in item.output_ids])}
    states = [item.states for item in conversations if item.states is not None]
    if states and len(states) == len(conversations):
        tensors['states'] = torch.cat(states)
    metadata = {'format': FORMAT, 'target': target, 'domains': json.dumps(domains),
                'ids': json.dumps([item.id for item in conversations])}
    write_safetensors(path, tensors, metadata)


def read_corpus(path: Path, *, target: str = '') -> list[Conversation]:
    """Read a corpus file.

    :param target: SHA-256 that the corpus must be of; empty takes any.
    :raises DataError: no such file, damaged, another format, or made by another target.
    """
    tensors, metadata = read_tensors(path, FORMAT)
    if target and metadata.get('target') != target:
        raise DataError(f'{path} was made by a target with checksum '
                        f"{metadata.get('target', '')[:12]}, not by {target[:12]}")
    try:
        return _conversations(tensors, json.loads(metadata['domains']),
                              json.loads(metadata['ids']))
    except (KeyError, ValueError, IndexError, RuntimeError) as error:
        raise DataError(f'{path} is damaged: {error!r}') from error


def read_tensors(path: Path, wanted: str) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Read all tensors and the metadata of a file of the format ``wanted``.

    :raises DataError: no such file, damaged, or another format.
    """
    try:
        with safe_open(path, 'pt') as file:
            metadata = file.metadata() or {}
            found = metadata.get('format', 'none')
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise DataError(f'{path} cannot be read: {error}') from error
    if found != wanted:
        raise DataError(f"{path} has format '{found}', not '{wanted}'")
    return tensors, metadata


def _conversations(tensors: dict[str, torch.Tensor], domains: list[str],
                   ids: list[str]) -> list[Conversation]:
    prompts = _split(tensors, 'prompt')
    outputs = _split(tensors, 'output')
    if not len(prompts) == len(outputs) == len(ids) == len(tensors['domain']):
        raise ValueError('its tensors are of different lengths')
    numbers = [len(p) + len(o) - 1 for p, o in zip(prompts, outputs, strict=True)]
    states: list[torch.Tensor | None] = [None] * len(ids)
    if 'states' in tensors:
        states = list(tensors['states'].split_with_sizes(numbers))
    return [Conversation(id=name, domain=domains[domain], prompt_ids=tuple(prompt),
                         output_ids=tuple(output), states=state)
            for name, domain, prompt, output, state
            in zip(ids, tensors['domain'].tolist(), prompts, outputs, states, strict=True)]


def _split(tensors: dict[str, torch.Tensor], name: str) -> list[list[int]]:
    lengths = tensors[f'{name}_lengths'].tolist()
    return [part.tolist() for part in tensors[f'{name}_ids'].split_with_sizes(lengths)]


def _ints(values: Sequence[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)
