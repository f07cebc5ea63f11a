# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Compares what tokens stand for: vocabularies of equal size may differ in content."""

from __future__ import annotations

from typing import Protocol

from memspec_ros.errors import TokenizerMismatchError

NUM_EXAMPLES = 3


class TokenTable(Protocol):
    """What a comparison needs of a tokenizer."""

    vocab_size: int

    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""

    @property
    def bos_id(self) -> int | None:
        """The token that begins a text, if there is one."""

    def token_bytes(self, token_id: int) -> bytes:
        """Return what a token stands for, b'' for special ones."""


def differing_tokens(first: TokenTable, second: TokenTable) -> list[int]:
    """Return the ids below both sizes whose content differs.

    Sizes themselves may differ, since models pad their tables (Qwen2.5 has 151936 and 152064).
    """
    return [token_id for token_id in range(min(first.vocab_size, second.vocab_size))
            if first.token_bytes(token_id) != second.token_bytes(token_id)]


def describe_differences(first: TokenTable, second: TokenTable) -> str:
    """Say how many tokens differ, and show the first few."""
    differing = differing_tokens(first, second)
    shared = min(first.vocab_size, second.vocab_size)
    examples = ', '.join(f'{token_id} ({first.token_bytes(token_id)!r} and '
                         f'{second.token_bytes(token_id)!r})'
                         for token_id in differing[:NUM_EXAMPLES])
    parts = [f'{len(differing)} of {shared} tokens differ' + (f', first {examples}'
                                                              if differing else '')]
    if first.vocab_size != second.vocab_size:
        parts.append(f'their numbers are {first.vocab_size} and {second.vocab_size}')
    if first.bos_id != second.bos_id:
        parts.append(f'a text begins with {first.bos_id} and {second.bos_id}')
    if first.end_ids != second.end_ids:
        parts.append(f'an answer ends with {sorted(first.end_ids)} and '
                     f'{sorted(second.end_ids)}')
    return '; '.join(parts)


def require_same_tokens(draft: TokenTable, target: TokenTable, name: str) -> None:
    """Check that a draft's tokens are the target's as far as both go.

    :raises TokenizerMismatchError: says how many differ and shows the first.
    """
    if differing_tokens(draft, target):
        raise TokenizerMismatchError(f"draft '{name}' has other tokens than the target: "
                                     f'{describe_differences(draft, target)}')
