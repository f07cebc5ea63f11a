# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From conversations with states to the slots a feature-conditioned draft learns from."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from memspec_ros.errors import DataError
from memspec_ros.models.suffix_lookup import look_up_all
from memspec_ros.training.corpus_file import Conversation
from memspec_ros.training.feature_unroll import SlotBatch


@dataclass(frozen=True, kw_only=True)
class TargetTables:
    """What a feature-conditioned draft borrows from its target."""

    embedding: torch.Tensor         # [vocab, hidden]
    row_tokens: torch.Tensor        # [rows]: the token that each output row stands for
    rows: torch.Tensor              # [rows, hidden]: those rows of the target's head
    token_rows: torch.Tensor        # [vocab]: the row of each token, -1 if it has none

    @classmethod
    def make(cls, embedding: torch.Tensor, head: torch.Tensor,
             row_tokens: torch.Tensor) -> TargetTables:
        """Cut the rows out of the target's head [vocab, hidden]."""
        token_rows = torch.full((len(head),), -1)
        token_rows[row_tokens] = torch.arange(len(row_tokens))
        return cls(embedding=embedding, row_tokens=row_tokens, rows=head[row_tokens],
                   token_rows=token_rows)


def frequent_rows(conversations: Sequence[Conversation], count: int,
                  vocab_size: int) -> torch.Tensor:
    """The tokens that the answers use most, ascending: [count].

    What the answers never use is filled up by lowest id: byte-pair vocabularies are ordered by
    how early a merge was found, so low ids are frequent.

    :raises DataError: there are no answers.
    """
    if not conversations:
        raise DataError('there are no answers to choose output rows from')
    counts = Counter(token for item in conversations for token in item.output_ids)
    order = sorted(range(vocab_size), key=lambda token: (-counts[token], token))
    return torch.tensor(sorted(order[:count]))


@dataclass(frozen=True, kw_only=True)
class SlotSequence:
    """One conversation's slots 1 to n - 1, for n states; see SlotBatch.

    ``soft_rows`` and ``soft_chances`` [slots, k] are the target's most probable rows and their
    probabilities among all rows.
    """

    domain: str
    tokens: torch.Tensor            # [slots]
    copied: torch.Tensor
    match: torch.Tensor
    states: torch.Tensor            # [slots, hidden], of the position before
    next_tokens: torch.Tensor
    is_output: torch.Tensor         # bool: the next token is the target's own
    soft_rows: torch.Tensor
    soft_chances: torch.Tensor

    def __len__(self) -> int:
        return len(self.tokens)


def make_sequence(item: Conversation, tables: TargetTables, *, num_soft: int,
                  max_context: int = 0) -> SlotSequence:
    """Prepare one conversation.

    :param num_soft: probabilities kept per slot; 0 keeps none.
    :param max_context: slots kept before the answer; 0 keeps all.
    :raises DataError: the conversation has no states.
    """
    if item.states is None:
        raise DataError(f"the corpus keeps no states of '{item.id}'")
    tokens = torch.tensor(item.prompt_ids + item.output_ids)
    copied, match = (torch.tensor(part) for part in look_up_all(tokens[:-1].tolist()))
    first = max(1, len(item.prompt_ids) - 1 - max_context) if max_context else 1
    soft_rows, soft_chances = _soft(item.states[first:].float(), tables.rows, num_soft)
    last = len(tokens) - 1
    return SlotSequence(
        domain=item.domain, tokens=tokens[first:last], copied=copied[first:],
        match=match[first:], states=item.states[first - 1:-1], next_tokens=tokens[first + 1:],
        is_output=torch.arange(first, last) >= len(item.prompt_ids) - 1,
        soft_rows=soft_rows, soft_chances=soft_chances)


def _soft(states: torch.Tensor, rows: torch.Tensor,
          count: int) -> tuple[torch.Tensor, torch.Tensor]:
    if count == 0:
        empty = states.new_zeros(len(states), 0)
        return empty.int(), empty
    chances, best = torch.softmax(states @ rows.T, -1).topk(count, -1)
    return best.to(torch.int32), chances.half()


def make_batch(sequences: Sequence[SlotSequence], tables: TargetTables,
               wanted: Sequence[torch.Tensor]) -> SlotBatch:
    """Pad sequences to one batch. ``wanted``: per sequence, where proposals start."""
    def pad(parts: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True)
    tokens, copied = pad([s.tokens for s in sequences]), pad([s.copied for s in sequences])
    return SlotBatch(
        embedded=tables.embedding[tokens], copied=tables.embedding[copied],
        copied_token=copied, copied_row=tables.token_rows[copied],
        match=pad([s.match for s in sequences]),
        state=pad([s.states for s in sequences]).float(),
        next_token=pad([s.next_tokens for s in sequences]), wanted=pad(wanted))


def batches(sequences: Sequence[SlotSequence], slots_per_batch: int,
            seed: int) -> Iterator[list[SlotSequence]]:
    """Yield batches of similar lengths, in an order that the seed decides, each sequence once."""
    shuffle = random.Random(seed)
    order = sorted(range(len(sequences)),
                   key=lambda index: len(sequences[index]) + shuffle.uniform(0, 32))
    groups: list[list[SlotSequence]] = []
    longest = 0
    for index in order:
        longest = max(longest, len(sequences[index]))
        if not groups or longest * (len(groups[-1]) + 1) > slots_per_batch:
            groups.append([])
            longest = len(sequences[index])
        groups[-1].append(sequences[index])
    shuffle.shuffle(groups)
    yield from groups
