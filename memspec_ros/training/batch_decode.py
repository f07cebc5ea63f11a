# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Many answers of the target at once: rows of different lengths in one pass.

The corpus is made with this rather than with the serving loop, which runs one sequence: here each
pass reads the weights once for all rows, and finished rows make place for waiting prompts
(continuous batching). The same rows give a teacher-forced pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from memspec_ros.errors import DataError

ADMIT_TOGETHER = 8      # rows that must be free before prompts are admitted: wider passes


class Rows(Protocol):
    """KV caches of a number of sequences, their slots, and passes over them."""

    num_rows: int
    capacity: int                   # tokens per sequence
    hidden_size: int
    pass_sequences: int             # sequences that one extend takes well

    def share(self, tokens: Sequence[int]) -> torch.Tensor:
        """Forget all; begin every slot with these tokens. Returns states [tokens, hidden]."""
        ...

    def extend(self, sequences: Sequence[Sequence[int]], slot: int, *,
               with_logits: bool) -> tuple[list[torch.Tensor], torch.Tensor | None]:
        """Fill the slots from ``slot`` on with sequences that begin with the shared tokens.

        :returns: last states of what follows the shared tokens, [tokens, hidden] each, and the
            logits of every last token, [sequences, vocab].
        """
        ...

    def advance(self, tokens: Sequence[int],
                lengths: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Append one token to each of the first slots, which hold ``lengths`` tokens.

        :returns: last states [rows, hidden] and logits [rows, vocab].
        """
        ...

    def move(self, source: int, slot: int, length: int) -> None:
        """Copy one slot's first ``length`` entries to another."""
        ...


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answered prompt. ``states`` are those of all positions but the last output token's."""

    index: int
    output_ids: list[int]
    states: torch.Tensor            # [len(prompt) + len(output) - 1, hidden], fp16


Chooser = Callable[[torch.Tensor, Sequence[int], Sequence[int]], list[int]]
"""(logits [rows, vocab], prompt index per row, output length per row) -> token per row."""


def choose_greedy(logits: torch.Tensor, indices: Sequence[int],
                  lengths: Sequence[int]) -> list[int]:
    """Take the most probable token of each row."""
    del indices, lengths
    return [int(token) for token in logits.argmax(-1)]


def choose_sampled(temperature: float, seed: int) -> Chooser:
    """Return a chooser whose draw depends on seed, prompt and position only, not on the batch."""
    def choose(logits: torch.Tensor, indices: Sequence[int], lengths: Sequence[int]) -> list[int]:
        probabilities = torch.softmax(logits / temperature, -1)
        chosen = []
        for row, (index, length) in enumerate(zip(indices, lengths, strict=True)):
            generator = torch.Generator().manual_seed((seed * 1_000_003 + index) * 4099 + length)
            chosen.append(int(torch.multinomial(probabilities[row], 1, generator=generator)))
        return chosen
    return choose


@dataclass(kw_only=True)
class _Row:
    """One sequence in flight; its slot in the KV cache is its place in the list of rows."""

    index: int
    length: int                     # entries in the KV cache
    token: int                      # chosen, not in the KV cache yet
    output_ids: list[int]
    states: torch.Tensor            # [capacity, hidden], fp16


class BatchDecoder:
    """Greedy or sampled answers to many prompts."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._shared_states = torch.zeros(0, rows.hidden_size)

    @torch.inference_mode()
    def answer(self, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
               end_ids: frozenset[int], choose: Chooser = choose_greedy,
               on_step: Callable[[int], None] | None = None) -> Iterator[Answer]:
        """Answer all prompts, in the order in which they finish.

        Deterministic: rows are filled in the order of ``prompts``, and what shares a batch
        depends on the answers only.

        :param on_step: told the number of tokens that each step made.
        :raises DataError: a prompt is empty or does not fit with its answer.
        """
        self._check(prompts, max_new_tokens)
        self._begin(prompts)
        waiting = list(enumerate(prompts))[::-1]
        rows: list[_Row] = []
        while waiting or rows:
            free = self._rows.num_rows - len(rows)
            if waiting and (free >= ADMIT_TOGETHER or not rows):
                admitted = [waiting.pop() for _ in range(min(free, len(waiting)))]
                for start in range(0, len(admitted), self._rows.pass_sequences):
                    rows += self._admit(admitted[start:start + self._rows.pass_sequences],
                                        len(rows), choose)
            for slot in reversed(range(len(rows))):
                if _finished(rows[slot], max_new_tokens, end_ids):
                    yield self._retire(rows, slot)
            if rows:
                self._step(rows, choose)
                if on_step is not None:
                    on_step(len(rows))

    @torch.inference_mode()
    def teacher_forced(self, sequences: Sequence[Sequence[int]]) -> Iterator[torch.Tensor]:
        """Last hidden states of given sequences, one [tokens, hidden] fp32 for each.

        :raises DataError: a sequence is empty or longer than ``capacity``.
        """
        self._check(sequences, 0)
        self._begin(sequences)
        together = min(self._rows.pass_sequences, self._rows.num_rows)
        for start in range(0, len(sequences), together):
            yield from self._extend(sequences[start:start + together], 0, with_logits=False)[0]

    def _check(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> None:
        for index, prompt in enumerate(prompts):
            if not 0 < len(prompt) <= self._rows.capacity - max_new_tokens:
                raise DataError(f'prompt {index} has {len(prompt)} tokens; with '
                                f'{max_new_tokens} new ones 1 to '
                                f'{self._rows.capacity - max_new_tokens} fit')

    def _begin(self, sequences: Sequence[Sequence[int]]) -> None:
        """Compute what all sequences begin with (the system prompt) once, into every slot."""
        shared = _common_prefix(sequences) if len(sequences) > 1 else []
        self._shared_states = self._rows.share(shared).clone()

    def _extend(self, sequences: Sequence[Sequence[int]], slot: int, *,
                with_logits: bool) -> tuple[list[torch.Tensor], torch.Tensor | None]:
        hidden, logits = self._rows.extend(sequences, slot, with_logits=with_logits)
        return [torch.cat((self._shared_states, states)) for states in hidden], logits

    def _admit(self, prompts: Sequence[tuple[int, Sequence[int]]], slot: int,
               choose: Chooser) -> list[_Row]:
        hidden, logits = self._extend([prompt for _, prompt in prompts], slot, with_logits=True)
        assert logits is not None
        tokens = choose(logits, [index for index, _ in prompts], [0] * len(prompts))
        rows = []
        for (index, prompt), token, prompt_states in zip(prompts, tokens, hidden, strict=True):
            states = torch.zeros(self._rows.capacity, prompt_states.shape[1], dtype=torch.float16)
            states[:len(prompt)] = prompt_states
            rows.append(_Row(index=index, length=len(prompt), token=token, output_ids=[token],
                             states=states))
        return rows

    def _retire(self, rows: list[_Row], slot: int) -> Answer:
        row, last = rows[slot], rows.pop()
        if last is not row:
            rows[slot] = last
            self._rows.move(len(rows), slot, last.length)
        return Answer(index=row.index, output_ids=row.output_ids,
                      states=row.states[:row.length].clone())

    def _step(self, rows: list[_Row], choose: Chooser) -> None:
        hidden, logits = self._rows.advance([row.token for row in rows],
                                            [row.length for row in rows])
        tokens = choose(logits, [row.index for row in rows],
                        [len(row.output_ids) for row in rows])
        for row, token, state in zip(rows, tokens, hidden, strict=True):
            row.states[row.length] = state
            row.length += 1
            row.token = token
            row.output_ids.append(token)


def _common_prefix(sequences: Sequence[Sequence[int]]) -> list[int]:
    """What all sequences begin with, short of the last token of the shortest."""
    shared: list[int] = []
    for tokens in zip(*sequences, strict=False):
        if any(token != tokens[0] for token in tokens):
            break
        shared.append(tokens[0])
    shortest = min((len(sequence) for sequence in sequences), default=1)
    return shared[:shortest - 1]


def _finished(row: _Row, max_new_tokens: int, end_ids: frozenset[int]) -> bool:
    return row.token in end_ids or len(row.output_ids) >= max_new_tokens
