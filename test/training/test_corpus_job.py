# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A corpus is what the target says, whatever shares a batch and whatever interrupts."""

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_target import CONFIG, make_target, make_weights

from memspec_ros.errors import ConfigError, DataError
from memspec_ros.models.decoder import Decoder
from memspec_ros.training import corpus
from memspec_ros.training.batch_decode import BatchDecoder, choose_sampled
from memspec_ros.training.corpus_file import read_corpus
from memspec_ros.training.corpus_job import (
    CorpusJob,
    CorpusOptions,
    TokenizedPrompt,
    interleave,
)
from memspec_ros.training.prompts import read_prompts
from memspec_ros.training.robot_prompts import robot_prompts

END = frozenset({36})
OPTIONS = CorpusOptions(max_new_tokens=30, num_rows=4, part_prompts=5, keep_states=True)


def make_prompts(count=18):
    generator = torch.Generator().manual_seed(5)
    return [TokenizedPrompt(
        id=str(number), domain='math' if number % 3 else 'law',
        prompt_ids=(2, 5, *torch.randint(0, 40, (1 + number % 7,), generator=generator).tolist()))
        for number in range(count)]


def make_decoder():
    return BatchDecoder(make_target().rows(num_rows=4, capacity=50))


def make_job(folder, options=OPTIONS, target='f' * 64, prompts=None):
    return CorpusJob(folder / 'corpus.safetensors', prompts or make_prompts(), options,
                     target=target)


def finish(job):
    for part in job.missing():
        job.make(part, make_decoder(), END)
    job.join()


def greedy_reference(prompt):
    """Output and states of one prompt alone, on the serving decoder."""
    decoder = Decoder(CONFIG, make_weights())
    kv_cache = decoder.make_kv_cache(context_tokens=64)
    tokens, states = torch.tensor([prompt]), []
    output = []
    while len(output) < OPTIONS.max_new_tokens:
        logits, hidden = decoder.forward(tokens, kv_cache, 1)
        states.append(hidden[0])
        output.append(int(logits[0, -1].argmax()))
        if output[-1] in END:
            break
        tokens = torch.tensor([[output[-1]]])
    return tuple(output), torch.cat(states)


def test_answers_and_states_are_those_of_the_decoder_alone(tmp_path):
    job = make_job(tmp_path)
    finish(job)
    answers = read_corpus(tmp_path / 'corpus.safetensors')
    assert [answer.id for answer in answers] == [prompt.id for prompt in make_prompts()]
    for answer in answers:
        output, states = greedy_reference(answer.prompt_ids)
        assert answer.output_ids == output
        torch.testing.assert_close(answer.states.float(), states, atol=0.01, rtol=0.01)
    assert len({len(answer.output_ids) for answer in answers}) > 1


def test_a_teacher_forced_pass_gives_the_same_states():
    prompts = [list(prompt.prompt_ids) for prompt in make_prompts()]
    for states, prompt in zip(make_decoder().teacher_forced(prompts), prompts, strict=True):
        _, expected = greedy_reference(prompt)
        torch.testing.assert_close(states, expected[:len(prompt)], atol=1e-4, rtol=1e-4)


def test_sampled_tokens_do_not_depend_on_the_batch():
    prompts = [prompt.prompt_ids for prompt in make_prompts(6)]
    def answers(rows):
        decoder = BatchDecoder(make_target().rows(num_rows=rows, capacity=32))
        made = decoder.answer(prompts, max_new_tokens=8, end_ids=frozenset(),
                              choose=choose_sampled(0.8, 7))
        return {answer.index: answer.output_ids for answer in made}
    assert answers(1) == answers(4)
    assert answers(4) != {index: list(greedy_reference(prompt)[0][:8])
                          for index, prompt in enumerate(prompts)}


def test_an_interrupted_job_ends_in_the_same_bytes(tmp_path):
    finish(make_job(tmp_path / 'whole'))
    first = make_job(tmp_path / 'resumed')
    first.make(2, make_decoder(), END)

    def stop(_num_tokens):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.make(0, make_decoder(), END, stop)
    again = make_job(tmp_path / 'resumed')
    assert again.missing() == [0, 1, 3]
    finish(again)
    assert (tmp_path / 'whole' / 'corpus.safetensors').read_bytes() \
        == (tmp_path / 'resumed' / 'corpus.safetensors').read_bytes()
    assert not again.folder.exists()


KILLED_JOB = """
import os, signal, sys
sys.path[:0] = {paths!r}
from pathlib import Path
import test_corpus_job as scene
job = scene.make_job(Path({folder!r}))
steps = []
def on_step(num_tokens):
    steps.append(num_tokens)
    if len(steps) == 50:
        os.kill(os.getpid(), signal.SIGKILL)
for part in job.missing():
    job.make(part, scene.make_decoder(), scene.END, on_step)
job.join()
"""


def test_a_job_killed_by_sigkill_goes_on(tmp_path):
    finish(make_job(tmp_path / 'whole'))
    here = Path(__file__).resolve()
    code = KILLED_JOB.format(paths=[str(here.parents[2]), str(here.parent)],
                             folder=str(tmp_path / 'killed'))
    killed = subprocess.run([sys.executable, '-c', code], env={**os.environ}, check=False)
    assert killed.returncode == -signal.SIGKILL
    job = make_job(tmp_path / 'killed')
    assert 0 < len(job.missing()) < job.num_parts
    finish(job)
    assert (tmp_path / 'whole' / 'corpus.safetensors').read_bytes() \
        == (tmp_path / 'killed' / 'corpus.safetensors').read_bytes()


@pytest.mark.parametrize('change', [
    {'options': dataclasses.replace(OPTIONS, max_new_tokens=11)}, {'target': 'e' * 64},
    {'prompts': make_prompts(17)}])
def test_parts_of_another_job_are_refused(tmp_path, change):
    make_job(tmp_path)
    with pytest.raises(DataError, match='holds parts of another job'):
        make_job(tmp_path, **change)


def test_joining_too_early_is_refused(tmp_path):
    with pytest.raises(DataError, match='4 of 4 parts are not made yet'):
        make_job(tmp_path).join()


def test_a_prompt_that_does_not_fit_is_refused(tmp_path):
    long = TokenizedPrompt(id='0', domain='law', prompt_ids=(2,) * 21)
    with pytest.raises(DataError, match='prompt 0 has 21 tokens; with 30 new ones 1 to 20 fit'):
        finish(make_job(tmp_path, prompts=[long]))


def test_a_corpus_of_another_target_is_refused(tmp_path):
    finish(make_job(tmp_path))
    with pytest.raises(DataError, match='made by a target with checksum ffff'):
        read_corpus(tmp_path / 'corpus.safetensors', target='e' * 64)


def test_a_damaged_corpus_is_refused(tmp_path):
    finish(make_job(tmp_path))
    file = tmp_path / 'corpus.safetensors'
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(DataError, match=r'corpus\.safetensors cannot be read'):
        read_corpus(file)


def test_no_prompts_are_refused(tmp_path):
    with pytest.raises(DataError, match='no prompts to answer'):
        CorpusJob(tmp_path / 'c', [], OPTIONS, target='')


def test_domains_take_turns():
    order = [prompt.domain for prompt in interleave(make_prompts(9))]
    assert order[:6] == ['law', 'math'] * 3


def test_options_out_of_range_are_refused():
    with pytest.raises(ConfigError, match=r'num_rows is 0; it must be in \[1, 1048576\]'):
        CorpusOptions(num_rows=0)


def test_reads_prompts_and_says_what_is_wrong(tmp_path):
    file = tmp_path / 'p.jsonl'
    file.write_text(json.dumps({'id': 'a', 'domain': 'law', 'prompt': 'x\u2028y'}) + '\n')
    assert list(read_prompts(str(file))) == [{'id': 'a', 'domain': 'law', 'prompt': 'x\u2028y'}]
    file.write_text('{"id": "a", "prompt": "x"}\n')
    with pytest.raises(DataError, match='row 0 names no domain'):
        list(read_prompts(str(file)))
    file.write_text('{"domain": "law", "prompt": " "}\n')
    with pytest.raises(DataError, match="row 0 has no 'prompt'"):
        list(read_prompts(str(file)))
    with pytest.raises(DataError, match=r'prompts .*none\.jsonl cannot be read'):
        list(read_prompts(str(tmp_path / 'none.jsonl')))


def test_robot_prompts_are_many_and_different():
    prompts = [row['prompt'] for row in robot_prompts(600)]
    assert len(set(prompts)) == 600
    assert not any('{' in prompt.replace('{"', '') for prompt in prompts)


def test_the_command_makes_a_corpus(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(corpus.TrainedTarget, 'load', lambda *_, **__: make_target())
    file = tmp_path / 'p.jsonl'
    file.write_text(''.join(json.dumps({'prompt': f'do {n}'}) + '\n' for n in range(7)))
    parser = argparse.ArgumentParser()
    corpus.add_arguments(parser)
    code = corpus.run(parser.parse_args([
        '--target', 'tiny', '--prompts', str(file), '--domain', 'robot', '--limit', '6',
        '--output', str(tmp_path / 'c.safetensors'), '--max-new-tokens', '5',
        '--part-prompts', '4', '--batch', '3']))
    assert code == 0
    assert len(read_corpus(tmp_path / 'c.safetensors')) == 6
    assert 'tokens/s' in capsys.readouterr().out
