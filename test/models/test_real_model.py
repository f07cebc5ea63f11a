# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 answers 20 prompts with the tokens that transformers chooses.

transformers sees each finished answer in one pass and must prefer every token of it where it
stands; then its own greedy answer is the same, token for token. One is generated in full.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from memspec_ros.config import TargetSettings
from memspec_ros.models.checkpoint import load_decoder
from memspec_ros.models.decoder import Decoder
from memspec_ros.models.fast_target import FastTarget
from memspec_ros.models.row_decoders import TorchRow
from memspec_ros.models.target import load_target
from memspec_ros.models.tokenizer import Tokenizer
from memspec_ros.models.tokenizer_files import load_tokenizer
from memspec_ros.records import ChatMessage

NUM_TOKENS = 40
CONTEXT_TOKENS = 256
PROMPTS = [
    'Name three things a robot should check before it starts to drive.',
    'Write a Python function that returns the largest of three numbers.',
    'What is the capital of Portugal, and which river does it lie on?',
    'Turn this into a polite request: bring the red box.',
    'A pallet holds 24 boxes of 1.5 kg. How heavy are they together?',
    'List the steps to pick up a cup with a gripper.',
    'Explain in one sentence what a lidar measures.',
    'Give me a JSON object with the keys name, mass_kg and color for an apple.',
    'Translate to French: The door is open.',
    'Which of these is not a fruit: pear, plum, hammer, fig?',
    'Why does a battery lose capacity in the cold?',
    'Write a haiku about a small robot in the rain.',
    'Summarise: The arm moved to the shelf, found it empty, and went back to its dock.',
    'What does the ROS 2 command "ros2 topic echo" do?',
    'Sort these numbers from small to large: 9, 2, 14, 7.',
    'Complete the sentence: If the path is blocked, the robot should',
    'How many minutes are there in a day and a half?',
    'Give two reasons to wear gloves in a workshop.',
    'Write a shell command that counts the lines of all .txt files in a folder.',
    'Is it safe to look into a laser scanner? Answer briefly.']


@pytest.fixture(autouse=True, scope='module')
def _threads() -> None:
    """Use all cores: this model is large enough."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))


@pytest.fixture(scope='module')
def tokenizer(smollm2_file: Path) -> Tokenizer:
    return load_tokenizer(smollm2_file)


@pytest.fixture(scope='module')
def decoder(smollm2_file: Path) -> Decoder:
    return load_decoder(smollm2_file, 'fp32', context_tokens=CONTEXT_TOKENS)


@pytest.fixture(scope='module')
def answers(decoder: Decoder, tokenizer: Tokenizer) -> list[tuple[list[int], list[int]]]:
    """Return prompt and greedy answer of each prompt, decoded together in one batch."""
    prompts = [tokenizer.encode_chat([ChatMessage(role='user', content=prompt)])
               for prompt in PROMPTS]
    kv_cache = decoder.make_kv_cache(context_tokens=CONTEXT_TOKENS, batch=len(prompts))
    width = max(map(len, prompts))
    padded = torch.tensor([prompt + [0] * (width - len(prompt)) for prompt in prompts])
    decoder.forward(padded, kv_cache, 0)
    kv_cache.rollback_rows(torch.tensor([len(prompt) - 1 for prompt in prompts]))
    columns = [torch.tensor([prompt[-1] for prompt in prompts])]
    for _ in range(NUM_TOKENS):
        logits, _ = decoder.forward(columns[-1][:, None], kv_cache, 1)
        columns.append(logits[:, 0].argmax(-1))
    rows = torch.stack(columns[1:], 1).tolist()
    return [(prompt, cut(row, tokenizer)) for prompt, row in zip(prompts, rows, strict=True)]


def cut(row: list[int], tokenizer: Tokenizer) -> list[int]:
    """Return an answer up to its end token, which is kept."""
    ends = [index for index, token in enumerate(row) if token in tokenizer.end_ids]
    return row[:ends[0] + 1] if ends else row


@pytest.fixture(scope='module')
def reference(smollm2_file: Path):
    transformers = pytest.importorskip('transformers')
    return transformers.AutoModelForCausalLM.from_pretrained(
        str(smollm2_file.parent), gguf_file=smollm2_file.name, dtype=torch.float32).eval()


def choices_of(logits: torch.Tensor, num_prompt: int) -> list[int]:
    """Return what a pass over prompt and answer prefers at each token of the answer."""
    return logits[num_prompt - 1:-1].argmax(-1).tolist()


@torch.inference_mode()
def test_transformers_prefers_every_token(answers, reference) -> None:
    for prompt_ids, answer in answers:
        logits = reference(torch.tensor([prompt_ids + answer])).logits[0]
        assert choices_of(logits, len(prompt_ids)) == answer


def test_the_target_prefers_every_token(answers, smollm2_file: Path) -> None:
    target = load_target(TargetSettings(model=str(smollm2_file), dtype='fp32', device='cpu',
                                        context_tokens=CONTEXT_TOKENS)).target
    for prompt_ids, answer in answers:
        target.rollback(0)
        tokens = prompt_ids + answer
        assert choices_of(target.extend(tokens, len(tokens)), len(prompt_ids)) == answer


def test_the_target_answers_one_token_at_a_time(answers, decoder: Decoder) -> None:
    target = FastTarget(TorchRow(decoder, context_tokens=CONTEXT_TOKENS),
                        context_tokens=CONTEXT_TOKENS)
    prompt_ids, answer = answers[3]
    found, tokens = [], prompt_ids
    while len(found) < len(answer):
        tokens = [int(target.extend(tokens, 1)[0].argmax())]
        found += tokens
    assert found == answer


def test_transformers_generates_the_same(answers, reference) -> None:
    prompt_ids, answer = answers[0]
    output = reference.generate(torch.tensor([prompt_ids]), do_sample=False,
                                max_new_tokens=NUM_TOKENS, pad_token_id=2,
                                attention_mask=torch.ones(1, len(prompt_ids)))
    assert output[0, len(prompt_ids):].tolist() == answer


def test_answers_are_text(tokenizer: Tokenizer, answers) -> None:
    texts = [tokenizer.decode(answer) for _, answer in answers]
    assert 'Lisbon' in texts[2]
    assert len({text for text in texts if text}) == len(PROMPTS)
