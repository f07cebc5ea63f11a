# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Draft-and-verify iterations: lossless, and cut where the output ends."""

import itertools

import pytest

from memspec_ros.decoding.generation import Generation
from memspec_ros.decoding.iteration import ModelExecutor
from memspec_ros.decoding.prefill import Prefill
from memspec_ros.decoding.text_stream import TextStream
from memspec_ros.decoding.token_choice import TokenChoice
from memspec_ros.records import FinishReason, SamplingOptions
from memspec_ros.testing.scripted_model import (
    AnsweringRule,
    HashedRule,
    ScriptedDraft,
    ScriptedTarget,
)

PROMPT = (5, 6, 7)


def letter(token_id):
    return bytes([96 + token_id])


class Scene:
    """A target, a draft and the executor over them, after prefill."""

    def __init__(self, *, answer=None, agrees=None, max_tokens=20, stop=(), sampling=None,
                 limit_reason=FinishReason.LENGTH):
        rule = AnsweringRule(answers={PROMPT: answer}, end_id=0) if answer else \
            HashedRule(vocab_size=27, excluded=frozenset({0}))
        self.target = ScriptedTarget(vocab_size=27, rule=rule)
        self.draft = ScriptedDraft('d', rule=rule, agrees=agrees, vocab_size=27)
        self.generation = Generation(target=self.target, prompt=PROMPT, max_tokens=max_tokens,
                                     text=TextStream(letter, stop), limit_reason=limit_reason)
        for _ in Prefill(self.target, 2).run(PROMPT):
            pass
        ticks = itertools.count()
        self.executor = ModelExecutor(
            target=self.target, drafts={'d': self.draft}, generation=self.generation,
            choice=TokenChoice(sampling or SamplingOptions(), 5), clock=lambda: next(ticks))

    def run(self, draft_length):
        outcomes = []
        while self.generation.finish_reason is None:
            outcomes.append(self.executor.iterate('d', draft_length))
            assert self.target.tokens == self.generation.tokens[:-1]
        return outcomes


def test_all_accepted_commits_the_bonus_token_too():
    scene = Scene(answer=[1, 2, 3, 4, 5, 6], max_tokens=6)
    outcome = scene.executor.iterate('d', 3)
    assert (outcome.num_drafted, outcome.num_accepted, outcome.num_committed) == (3, 3, 4)
    assert scene.generation.output == [1, 2, 3, 4]


def test_early_mismatch_commits_the_targets_token_there():
    scene = Scene(answer=[1, 2, 3, 4, 5, 6], agrees=lambda position: position != 4)
    outcome = scene.executor.iterate('d', 3)
    assert (outcome.num_drafted, outcome.num_accepted, outcome.num_committed) == (2, 1, 2)
    assert scene.generation.output == [1, 2]


def test_end_token_inside_an_accepted_block_ends_there_and_is_no_output():
    scene = Scene(answer=[1, 2])
    draft = scene.draft
    draft.propose = lambda *_: [1, 2, 0, 9]
    outcome = scene.executor.iterate('d', 4)
    assert outcome.finished is FinishReason.STOP
    assert (outcome.num_committed, outcome.num_accepted) == (2, 2)
    assert scene.generation.output == [1, 2]


def test_stop_string_inside_a_block_beats_the_limit_behind_it():
    scene = Scene(answer=[1, 2, 3, 4, 5, 6], max_tokens=4, stop=['bc'])
    (outcome,) = scene.run(5)
    assert outcome.finished is FinishReason.STOP
    assert scene.generation.text.text == 'a'
    assert scene.generation.output == [1]


def test_limit_inside_a_block_is_never_passed_and_the_draft_is_not_asked_for_more():
    scene = Scene(max_tokens=5)
    outcomes = scene.run(3)
    assert [outcome.num_committed for outcome in outcomes] == [4, 1]
    assert outcomes[-1].num_drafted == 0
    assert scene.generation.finish_reason is FinishReason.LENGTH


def test_the_context_limit_is_reported_as_such():
    scene = Scene(max_tokens=3, limit_reason=FinishReason.CONTEXT)
    scene.run(0)
    assert scene.generation.finish_reason is FinishReason.CONTEXT


def test_plain_decoding_asks_no_draft():
    scene = Scene()
    outcomes = scene.run(0)
    assert scene.draft.num_proposed == 0
    assert [outcome.num_committed for outcome in outcomes] == [1] * 20


def test_the_parts_of_an_iteration_are_timed():
    outcome = Scene().executor.iterate('d', 2)
    assert (outcome.draft_s, outcome.target_s, outcome.total_s) == (1, 1, 3)


def test_a_draft_that_did_not_run_is_judged_on_what_was_committed():
    scene = Scene(answer=[1, 2, 3, 4, 5, 6], agrees=lambda position: position != 4)
    scene.executor.iterate('d', 0)
    scene.executor.iterate('d', 0)
    assert scene.executor.catch_up('d') == [True, False]
    scene.executor.iterate('d', 0)
    assert scene.executor.catch_up('d') == [True]


@pytest.mark.parametrize('draft_length', [1, 2, 3, 7])
@pytest.mark.parametrize('sampling', [
    SamplingOptions(), SamplingOptions(temperature=1.5, top_p=0.9),
    SamplingOptions(temperature=1.0, repetition_penalty=1.3)],
    ids=['greedy', 'sampled', 'penalty'])
@pytest.mark.parametrize('agrees', [
    None, lambda position: position % 3, lambda _: False], ids=['always', 'often', 'never'])
def test_output_is_the_plain_output(draft_length, sampling, agrees):
    plain = Scene(sampling=sampling, max_tokens=40)
    plain.run(0)
    speculative = Scene(sampling=sampling, agrees=agrees, max_tokens=40)
    speculative.run(draft_length)
    assert speculative.generation.output == plain.generation.output
    assert speculative.generation.finish_reason is plain.generation.finish_reason
