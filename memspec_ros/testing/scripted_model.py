# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A target and drafts that follow a script, for tests without weights.

A *rule* is a pure function of a token sequence: the token that comes next. The target's logits
peak at it, a draft proposes it where its pattern says so and another token elsewhere. All is
deterministic, so a test can say beforehand what any speculative decoding must commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from memspec_ros.boundaries import Target, TokenContext
from memspec_ros.errors import ModelError

Rule = Callable[[Sequence[int]], int]
Pattern = Callable[[int], bool]


def _mix(seed: int, values: Sequence[int]) -> int:
    """Hash to 63 bits, the same in every process (``hash`` of a tuple promises less)."""
    state = seed + 0x9E3779B97F4A7C15
    for value in values:
        state = ((state ^ value) * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) % 2**64
        state ^= state >> 31
    return state >> 1


@dataclass(frozen=True, kw_only=True)
class HashedRule:
    """Next token: a hash of the last ``order`` tokens and the length, never one of ``excluded``.

    With the length in it a sequence does not fall into a cycle, so no n-gram repeats for long.
    """

    vocab_size: int = 64
    seed: int = 0
    order: int = 3
    excluded: frozenset[int] = frozenset()

    def __call__(self, tokens: Sequence[int]) -> int:
        """Return the token that follows ``tokens``."""
        token = _mix(self.seed + len(tokens), tokens[-self.order:]) % self.vocab_size
        while token in self.excluded:
            token = (token + 1) % self.vocab_size
        return token


@dataclass(frozen=True, kw_only=True)
class AnsweringRule:
    """Known prompts get their answer and then ``end_id``; other sequences get ``end_id``."""

    answers: Mapping[tuple[int, ...], Sequence[int]]
    end_id: int

    def __call__(self, tokens: Sequence[int]) -> int:
        """Return the token that follows ``tokens``."""
        seen = tuple(tokens)
        for prompt, answer in self.answers.items():
            script = (*prompt, *answer)
            if len(prompt) <= len(seen) < len(script) and seen == script[:len(seen)]:
                return script[len(seen)]
        return self.end_id


class ScriptedTarget:
    """A :class:`~memspec_ros.boundaries.Target` whose most probable token follows a rule.

    :param rule: next token; by default a :class:`HashedRule` that avoids ``end_ids``.
    :param peak: how far the rule's token stands above the others' logits, which are noise in
        [0, 1) that depends on the last three tokens; a small peak suits tests of sampling.
    :param num_hidden: positions that the ring of hidden states keeps.
    :param on_extend: called with the number of tokens before each pass; it may block on an event
        or raise, to hold or fail a goal at a known place.

    ``widths`` lists the number of tokens of each pass, ``tokens`` what the KV cache holds.
    """

    def __init__(self, *, vocab_size: int = 64, context_tokens: int = 512,
                 end_ids: frozenset[int] = frozenset({0}), rule: Rule | None = None,
                 peak: float = 4.0, seed: int = 0, hidden_size: int = 8, num_hidden: int = 64,
                 on_extend: Callable[[int], None] | None = None) -> None:
        self.vocab_size = vocab_size
        self.context_tokens = context_tokens
        self.end_ids = end_ids
        self.hidden_size = hidden_size
        self.rule = rule or HashedRule(vocab_size=vocab_size, seed=seed, excluded=end_ids)
        self.peak = peak
        self.seed = seed
        self.on_extend = on_extend
        self.tokens: list[int] = []
        self.widths: list[int] = []
        self._num_hidden = num_hidden
        self._first_hidden = 0

    @property
    def length(self) -> int:
        """Tokens in the KV cache."""
        return len(self.tokens)

    @property
    def first_hidden(self) -> int:
        """The oldest position whose hidden state the ring still has."""
        return self._first_hidden

    def logits_after(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits after any sequence, the KV cache apart: [vocab_size], float32."""
        generator = torch.Generator().manual_seed(_mix(self.seed, tokens[-3:]))
        logits = torch.rand(self.vocab_size, generator=generator)
        logits[self.rule(tokens)] = 1.0 + self.peak
        return logits

    def extend(self, token_ids: Sequence[int], num_logits: int) -> torch.Tensor:
        """Append tokens; logits after the last ``num_logits``: [num_logits, vocab_size].

        :raises ModelError: the context would overflow, or a token is outside the vocabulary.
        :raises ValueError: no tokens, or ``num_logits`` outside 0 to their number.
        """
        self._check(token_ids, num_logits)
        if self.on_extend is not None:
            self.on_extend(len(token_ids))
        self.widths.append(len(token_ids))
        self.tokens.extend(token_ids)
        self._first_hidden = max(self._first_hidden, self.length - self._num_hidden)
        logits = torch.empty(num_logits, self.vocab_size)
        for row in range(num_logits):
            logits[row] = self.logits_after(self.tokens[:self.length - num_logits + row + 1])
        return logits

    def _check(self, token_ids: Sequence[int], num_logits: int) -> None:
        if not token_ids or not 0 <= num_logits <= len(token_ids):
            raise ValueError(f'{len(token_ids)} tokens with {num_logits} logits asked for')
        if self.length + len(token_ids) > self.context_tokens:
            raise ModelError(f'{self.length} + {len(token_ids)} tokens do not fit the context of '
                             f'{self.context_tokens}')
        if not all(0 <= token < self.vocab_size for token in token_ids):
            raise ModelError(f'a token of {list(token_ids)} is outside 0..{self.vocab_size - 1}')

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` entries.

        :raises ValueError: ``length`` is negative or beyond what the KV cache holds.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f'rollback to {length} of {self.length} entries')
        del self.tokens[length:]
        self._first_hidden = min(self._first_hidden, length)

    def hidden_states(self, start: int, stop: int) -> torch.Tensor:
        """Noise that depends on position and tokens so far: [stop - start, hidden_size].

        :raises ValueError: a position is not in the ring.
        """
        if not self._first_hidden <= start <= stop <= self.length:
            raise ValueError(f'hidden states of {start}..{stop} asked for; the ring has '
                             f'{self._first_hidden}..{self.length}')
        states = torch.empty(stop - start, self.hidden_size)
        for row, position in enumerate(range(start, stop)):
            seed = _mix(self.seed + position, self.tokens[:position + 1][-3:])
            states[row] = torch.rand(self.hidden_size,
                                     generator=torch.Generator().manual_seed(seed))
        return states


@dataclass(kw_only=True)
class ScriptedContext:
    """A :class:`~memspec_ros.boundaries.TokenContext` to hold in a test and append to."""

    tokens: list[int]
    prompt_length: int
    target: Target


class ScriptedDraft:
    """A :class:`~memspec_ros.boundaries.Draft` that is right where its pattern says so.

    :param rule: the target's rule; what it gives is what the target will commit greedily.
    :param agrees: whether the proposal *for* a position (index into prompt and output) is the
        rule's, by default always; elsewhere it is the next token id, which greedy rejects.

    It follows the boundary's contract to the letter: it catches up before it proposes, judges
    each committed position once, stops at an end token, and its proposals depend on the tokens
    alone. ``num_proposed``, ``num_catch_ups`` and ``num_resets`` count calls.
    """

    def __init__(self, name: str, *, rule: Rule, agrees: Pattern | None = None,
                 vocab_size: int = 64, end_ids: frozenset[int] = frozenset({0})) -> None:
        self.name = name
        self._rule = rule
        self._agrees = agrees
        self._vocab_size = vocab_size
        self._end_ids = end_ids
        self._judged: list[int] = []
        self.num_proposed = 0
        self.num_catch_ups = 0
        self.num_resets = 0

    def reset(self) -> None:
        """Forget all tokens."""
        self._judged = []
        self.num_resets += 1

    def proposal_after(self, tokens: Sequence[int]) -> int:
        """Return what it proposes to follow any sequence."""
        token = self._rule(tokens)
        if self._agrees is None or self._agrees(len(tokens)):
            return token
        return (token + 1) % self._vocab_size

    def catch_up(self, context: TokenContext) -> Sequence[bool]:
        """One flag per committed position not yet judged: would it have proposed this token."""
        self.num_catch_ups += 1
        tokens = list(context.tokens)
        shared = _shared_length(self._judged, tokens)
        first = max(shared, context.prompt_length)
        self._judged = tokens
        return [self.proposal_after(tokens[:position]) == tokens[position]
                for position in range(first, len(tokens))]

    def propose(self, context: TokenContext, num_tokens: int) -> Sequence[int]:
        """Propose up to ``num_tokens``, fewer when it comes to an end token."""
        self.num_proposed += 1
        tokens = list(context.tokens)
        for _ in range(num_tokens):
            token = self.proposal_after(tokens)
            if token in self._end_ids:
                break
            tokens.append(token)
        return tokens[len(context.tokens):]


def _shared_length(first: Sequence[int], second: Sequence[int]) -> int:
    length = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        length += 1
    return length
