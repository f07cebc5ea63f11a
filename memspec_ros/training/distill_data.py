# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a draft is distilled from: corpora, their states, and a split that is never trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from memspec_ros.errors import DataError
from memspec_ros.training.batch_decode import BatchDecoder
from memspec_ros.training.corpus_file import Conversation, read_corpus, write_corpus
from memspec_ros.training.progress import Progress
from memspec_ros.training.slots import SlotSequence, TargetTables, make_sequence
from memspec_ros.training.trained_target import TrainedTarget

HELD_OUT_SHARE = 0.05
PART_CONVERSATIONS = 250


@dataclass(frozen=True, kw_only=True)
class Split:
    """Conversations to train on, and those held out: by a hash of the prompt, never both."""

    train: list[Conversation]
    held_out: list[Conversation]

    @classmethod
    def make(cls, conversations: Sequence[Conversation],
             share: float = HELD_OUT_SHARE) -> Split:
        """Split; a prompt's side does not depend on what else there is.

        :raises DataError: nothing is left to train on.
        """
        sides: tuple[list[Conversation], list[Conversation]] = ([], [])
        for item in conversations:
            digest = hashlib.sha256(repr(item.prompt_ids).encode()).digest()
            sides[int.from_bytes(digest[:4], 'big') < share * 2**32].append(item)
        if not sides[0]:
            raise DataError(f'{len(conversations)} answers leave nothing to train on')
        return cls(train=sides[0], held_out=sides[1])

    def of(self, domain: str) -> Split:
        """One domain's part.

        :raises DataError: the domain is empty.
        """
        train = [item for item in self.train if item.domain == domain]
        if not train:
            known = ', '.join(sorted({item.domain for item in self.train}))
            raise DataError(f"the corpus has no answers of domain '{domain}' (it has {known})")
        return Split(train=train, held_out=[i for i in self.held_out if i.domain == domain])


def read_corpora(paths: Sequence[Path], target: TrainedTarget, cache: Path) -> list[Conversation]:
    """Read corpora (files, or folders of finished parts), with states.

    States that a corpus does not keep are computed, in parts that survive a kill.

    :param cache: folder for computed states.
    :raises DataError: a file is damaged or was made by another target.
    """
    conversations: list[Conversation] = []
    for path in paths:
        files = sorted(path.glob('*.safetensors')) if path.is_dir() else [path]
        if not files:
            raise DataError(f'{path} has no corpus files')
        for file in files:
            conversations += _with_states(read_corpus(file, target=target.checksum), target,
                                          cache)
    return conversations


def _with_states(items: list[Conversation], target: TrainedTarget,
                 cache: Path) -> list[Conversation]:
    if all(item.states is not None for item in items):
        return items
    cache.mkdir(parents=True, exist_ok=True)
    done: list[Conversation] = []
    with Progress(len(items), 'states', unit='answers') as progress:
        for start in range(0, len(items), PART_CONVERSATIONS):
            part = items[start:start + PART_CONVERSATIONS]
            done += _states_of_part(part, target, cache)
            progress.add(len(part))
    return done


def _states_of_part(items: list[Conversation], target: TrainedTarget,
                    cache: Path) -> list[Conversation]:
    key = repr([target.checksum, [(i.prompt_ids, i.output_ids) for i in items]])
    file = cache / f'states-{hashlib.sha256(key.encode()).hexdigest()[:24]}.safetensors'
    if not file.exists():
        sequences = [item.prompt_ids + item.output_ids[:-1] for item in items]
        decoder = BatchDecoder(target.rows(num_rows=8, capacity=max(map(len, sequences))))
        write_corpus(file, [
            Conversation(id=item.id, domain=item.domain, prompt_ids=item.prompt_ids,
                         output_ids=item.output_ids, states=states.half())
            for item, states in zip(items, decoder.teacher_forced(sequences), strict=True)],
            target=target.checksum)
    return read_corpus(file, target=target.checksum)


def make_sequences(items: Sequence[Conversation], tables: TargetTables, *, num_soft: int,
                   max_context: int) -> list[SlotSequence]:
    """Prepare conversations; those of fewer than two states teach nothing."""
    return [make_sequence(item, tables, num_soft=num_soft, max_context=max_context)
            for item in items if item.num_states > 1]


def channel_scales(items: Sequence[Conversation], embedding: torch.Tensor,
                   row_tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """Root mean square of each channel of the target's states and embeddings."""
    states = [item.states for item in items[:64] if item.states is not None]
    if not states:
        raise DataError('the corpus keeps no states')
    used = embedding[row_tokens].square().mean(0).sqrt()
    return {'state': torch.cat(states).float().square().mean(0).sqrt().clamp(min=1e-4),
            'embedding': used.clamp(min=1e-6)}
