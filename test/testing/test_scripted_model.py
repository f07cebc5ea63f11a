# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The scripted target and draft keep the boundaries' contracts."""

import pytest
import torch

from memspec_ros.errors import ModelError
from memspec_ros.testing.scripted_model import (
    AnsweringRule,
    HashedRule,
    ScriptedContext,
    ScriptedDraft,
    ScriptedTarget,
)

PROMPT = [5, 6, 7]


def answer(target: ScriptedTarget, num_tokens: int) -> list[int]:
    tokens = list(PROMPT)
    for _ in range(num_tokens):
        tokens.append(target.rule(tokens))
    return tokens[len(PROMPT):]


def test_one_pass_and_many_give_the_same_logits():
    whole, split = ScriptedTarget(), ScriptedTarget()
    tokens = [*PROMPT, 9, 11, 3]
    expected = whole.extend(tokens, 3).clone()
    split.extend(tokens[:4], 0)
    rows = [split.extend([token], 1)[0] for token in tokens[4:]]
    assert torch.equal(expected[1:], torch.stack(rows))
    assert split.widths == [4, 1, 1]


def test_argmax_follows_the_rule_after_a_rollback():
    target = ScriptedTarget()
    target.extend([*PROMPT, 1, 1], 1)
    target.rollback(3)
    assert target.length == 3
    logits = target.extend([8], 1)
    assert int(logits.argmax()) == target.rule([*PROMPT, 8])
    assert torch.equal(logits[0], target.logits_after([*PROMPT, 8]))


def test_hashed_rule_never_ends():
    rule = HashedRule(vocab_size=4, excluded=frozenset({0}))
    tokens = [1]
    for _ in range(200):
        tokens.append(rule(tokens))
    assert set(tokens) == {1, 2, 3}


def test_answering_rule_ends_after_the_answer():
    rule = AnsweringRule(answers={(5, 6): (7, 8)}, end_id=0)
    assert [rule([5, 6]), rule([5, 6, 7]), rule([5, 6, 7, 8]), rule([5])] == [7, 8, 0, 0]


def test_target_refuses_what_the_real_one_refuses():
    target = ScriptedTarget(context_tokens=4)
    with pytest.raises(ModelError, match=r'0 \+ 5 tokens do not fit the context of 4'):
        target.extend([1] * 5, 1)
    with pytest.raises(ModelError, match=r'outside 0\.\.63'):
        target.extend([64], 1)
    with pytest.raises(ValueError, match='rollback to 1 of 0'):
        target.rollback(1)
    assert target.length == 0


def test_ring_of_hidden_states_forgets_the_oldest():
    target = ScriptedTarget(num_hidden=4)
    target.extend([1, 2, 3, 4, 5, 6], 0)
    assert target.first_hidden == 2
    before = target.hidden_states(2, 4).clone()
    target.rollback(4)
    target.extend([9], 0)
    assert target.first_hidden == 2
    assert torch.equal(target.hidden_states(2, 4), before)
    with pytest.raises(ValueError, match=r'the ring has 2\.\.5'):
        target.hidden_states(1, 3)
    target.rollback(0)
    assert target.first_hidden == 0


def test_on_extend_sees_each_pass_and_may_fail_it():
    def fail(num_tokens: int) -> None:
        raise RuntimeError(f'pass of {num_tokens}')

    target = ScriptedTarget(on_extend=fail)
    with pytest.raises(RuntimeError, match='pass of 3'):
        target.extend(PROMPT, 1)
    assert target.length == 0


def test_draft_agrees_where_its_pattern_says():
    target = ScriptedTarget()
    output = answer(target, 6)
    draft = ScriptedDraft('d', rule=target.rule, agrees=lambda position: position != 5)
    context = ScriptedContext(tokens=list(PROMPT), prompt_length=3, target=target)
    proposed = draft.propose(context, 4)
    assert proposed[:2] == output[:2]
    assert proposed[2] == (output[2] + 1) % target.vocab_size
    context.tokens += output
    assert draft.catch_up(context) == [True, True, False, True, True, True]
    assert draft.catch_up(context) == []


def test_draft_judges_only_what_a_rollback_replaced():
    target = ScriptedTarget()
    draft = ScriptedDraft('d', rule=target.rule)
    context = ScriptedContext(tokens=[*PROMPT, *answer(target, 4)], prompt_length=3,
                              target=target)
    assert len(draft.catch_up(context)) == 4
    context.tokens[5:] = [1, 1, 1]
    assert len(draft.catch_up(context)) == 3


def test_draft_stops_at_its_end_token():
    rule = AnsweringRule(answers={tuple(PROMPT): (9, 10)}, end_id=0)
    draft = ScriptedDraft('d', rule=rule)
    context = ScriptedContext(tokens=list(PROMPT), prompt_length=3, target=ScriptedTarget())
    assert draft.propose(context, 5) == [9, 10]
