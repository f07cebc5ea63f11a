# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The n-gram draft against a look-up that scans all tokens each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from memspec_ros.boundaries import Draft
from memspec_ros.models.ngram_draft import NgramDraft, NgramIndex
from memspec_ros.testing.scripted_model import ScriptedTarget

END = 9


@dataclass(kw_only=True)
class Context:
    """Tokens to draft for."""

    tokens: list[int]
    prompt_length: int = 1
    target: ScriptedTarget = field(
        default_factory=lambda: ScriptedTarget(end_ids=frozenset({END})))


def propose(tokens: Sequence[int], num_tokens: int = 4, max_size: int = 3) -> list[int]:
    return list(NgramDraft(max_size=max_size).propose(Context(tokens=list(tokens)), num_tokens))


def scan(tokens: Sequence[int], num_tokens: int, max_size: int) -> list[int]:
    """Prompt look-up as its definition says: longest n-gram first, latest match first."""
    for size in range(min(max_size, len(tokens)), 0, -1):
        gram = tokens[-size:]
        for start in range(len(tokens) - size - 1, -1, -1):
            if tokens[start:start + size] == gram:
                proposed = list(tokens)
                while len(proposed) < len(tokens) + num_tokens:
                    token = proposed[start + size + len(proposed) - len(tokens)]
                    if token == END:
                        break
                    proposed.append(token)
                return proposed[len(tokens):]
    return []


def test_repeats_what_followed() -> None:
    assert propose([1, 2, 3, 4, 5, 6, 2, 3]) == [4, 5, 6, 2]


def test_longer_matches_come_first() -> None:
    assert propose([1, 2, 7, 0, 2, 8, 0, 1, 2], 1) == [7]


def test_latest_match_comes_first() -> None:
    assert propose([2, 7, 2, 8, 2], 1) == [8]


def test_a_copy_runs_into_itself() -> None:
    assert propose([5, 1, 2, 1, 2], 6) == [1, 2, 1, 2, 1, 2]


def test_nothing_known_nothing_proposed() -> None:
    assert propose([1, 2, 3]) == []


def test_an_end_token_ends_drafting() -> None:
    assert propose([1, 2, 3, END, 2, 1, 2]) == [3]


@settings(deadline=None)
@given(st.lists(st.integers(0, 4) | st.just(END), min_size=1, max_size=40),
       st.integers(1, 7), st.integers(1, 4))
def test_equals_the_definition(tokens: list[int], num_tokens: int, max_size: int) -> None:
    assert propose(tokens, num_tokens, max_size) == scan(tokens, num_tokens, max_size)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.lists(st.integers(0, 3), max_size=8)),
                min_size=1, max_size=8))
def test_proposals_depend_on_the_tokens_alone(steps: list[tuple[int, list[int]]]) -> None:
    draft: Draft = NgramDraft(max_size=3)
    tokens = [0]
    for back, added in steps:
        tokens = tokens[:max(1, len(tokens) - back)] + added
        assert list(draft.propose(Context(tokens=tokens), 4)) == scan(tokens, 4, 3)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.data())
def test_flags_tell_what_would_have_been_proposed(tokens: list[int], data: st.DataObject) -> None:
    prompt_length = data.draw(st.integers(1, len(tokens)))
    expected = [scan(tokens[:position], 1, 3) == [tokens[position]]
                for position in range(prompt_length, len(tokens))]
    draft = NgramDraft(max_size=3)
    flags: list[bool] = []
    for stop in sorted(data.draw(st.sets(st.integers(prompt_length, len(tokens))))):
        context = Context(tokens=tokens[:stop], prompt_length=prompt_length)
        if data.draw(st.booleans()):
            draft.propose(context, 3)  # judges too, and keeps the flags
        flags += draft.catch_up(context)
    flags += draft.catch_up(Context(tokens=tokens, prompt_length=prompt_length))
    assert flags == expected


def test_another_goal_has_its_own_flags() -> None:
    draft = NgramDraft(max_size=3)
    draft.propose(Context(tokens=[1, 2, 1, 2], prompt_length=1), 2)
    assert draft.catch_up(Context(tokens=[3, 1, 3, 1], prompt_length=3)) == [True]
    draft.reset()
    assert draft.propose(Context(tokens=[3]), 2) == []


def test_the_index_is_as_before_after_a_rollback() -> None:
    once, twice = NgramIndex(4), NgramIndex(4)
    for token in (1, 2, 1, 2, 3):
        once.append(token)
        twice.append(token)
    for token in (1, 2, 3, 1):
        twice.append(token)
    twice.rollback(5)
    assert vars(once) == vars(twice)
