# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Prefill: chunks, and reuse of the prefix that goals share."""

from memspec_ros.decoding.prefill import Prefill
from memspec_ros.testing.scripted_model import ScriptedTarget


def scene(chunk_tokens=4):
    target = ScriptedTarget(vocab_size=64)
    return target, Prefill(target, chunk_tokens)


def test_the_last_prompt_token_is_left_to_the_first_iteration():
    target, prefill = scene()
    prompt = list(range(1, 11))
    assert prefill.begin(prompt) == 0
    assert list(prefill.run(prompt)) == [4, 8, 9]
    assert target.tokens == prompt[:-1]


def test_a_prompt_of_one_token_needs_no_pass():
    target, prefill = scene()
    prefill.begin([3])
    assert list(prefill.run([3])) == []
    assert target.widths == []


def test_a_shared_prefix_is_not_computed_again():
    target, prefill = scene()
    first = list(range(1, 11))
    prefill.begin(first)
    list(prefill.run(first))
    prefill.hold([*first, 50, 51])
    second = [*first[:6], 30, 31, 32]
    assert prefill.begin(second) == 6
    assert list(prefill.run(second)) == [8]
    assert target.tokens == second[:-1]


def test_entries_beyond_the_kv_cache_are_not_taken_for_held():
    """A goal ended with its last tokens not fed: only what the KV cache holds is reused."""
    target, prefill = scene()
    prefill.begin([1, 2, 3])
    list(prefill.run([1, 2, 3]))
    prefill.hold([1, 2, 3, 4, 5])
    assert prefill.begin([1, 2, 3, 4, 5, 6]) == 2
    list(prefill.run([1, 2, 3, 4, 5, 6]))
    assert target.tokens == [1, 2, 3, 4, 5]


def test_the_same_prompt_again_needs_no_pass():
    target, prefill = scene()
    prompt = [1, 2, 3, 4, 5, 6]
    for expected in (0, 5):
        assert prefill.begin(prompt) == expected
        list(prefill.run(prompt))
    assert target.widths == [4, 1]


def test_a_prefill_left_midway_is_reused_as_far_as_it_came():
    target, prefill = scene()
    prompt = list(range(1, 11))
    prefill.begin(prompt)
    next(prefill.run(prompt))
    assert prefill.begin(prompt) == 4
    list(prefill.run(prompt))
    assert target.tokens == prompt[:-1]


def test_after_forget_everything_is_computed():
    target, prefill = scene()
    prefill.begin([1, 2, 3])
    list(prefill.run([1, 2, 3]))
    prefill.forget()
    assert prefill.begin([1, 2, 3]) == 0
    assert target.length == 0
