# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A target of a few thousand random weights, three random drafts, and prompts of our own."""

from __future__ import annotations

import json

import pytest
import torch

from memspec_ros.cli import main
from memspec_ros.models.pool import Pool, PoolEntry, write_pool
from memspec_ros.testing.model_files import byte_tokens, write_gguf
from memspec_ros.testing.random_checkpoint import RandomCheckpoint
from memspec_ros.testing.random_checkpoint import tiny_config as tiny_target
from memspec_ros.testing.tiny_draft import tiny_config as tiny_draft
from memspec_ros.testing.tiny_draft import write_tiny_draft

DOMAINS = ('general', 'code', 'law')
PROMPTS = ('Pick up the cup.', 'Turn left at the door, then stop.', 'Say the time.')


@pytest.fixture(autouse=True, scope='session')
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope='session')
def models(tmp_path_factory):
    """A params file of tiny models, in a folder with everything that it names."""
    folder = tmp_path_factory.mktemp('models')
    vocab_size = len(byte_tokens())
    write_gguf(folder / 'target.gguf', RandomCheckpoint(tiny_target(
        vocab_size=vocab_size, num_layers=1)), kind='F32')
    for seed, name in enumerate(DOMAINS):
        write_tiny_draft(folder / f'{name}.safetensors', seed=seed, domain=name,
                         config=tiny_draft(vocab_size=vocab_size))
    write_pool(Pool(name='tiny', target='target.gguf', path=folder / 'pool.yaml', drafts=tuple(
        PoolEntry(name=name, domain=name, file=f'{name}.safetensors', dtype='fp32')
        for name in DOMAINS)))
    path = folder / 'params.yaml'
    path.write_text(
        '/**:\n  ros__parameters:\n'
        f'    target: {{model: {folder}/target.gguf, dtype: fp32, context_tokens: 128, '
        'num_threads: 1, device: cpu}\n'
        f'    draft: {{pool: {folder}/pool.yaml}}\n'
        '    runtime: {headroom_mb: 0.0, max_draft_length: 3}\n', encoding='utf-8')
    return path


@pytest.fixture(scope='session')
def data(tmp_path_factory):
    """A folder per domain, two prompts in each."""
    folder = tmp_path_factory.mktemp('data')
    for domain in DOMAINS:
        (folder / domain).mkdir()
        (folder / domain / 'own.jsonl').write_text(''.join(
            json.dumps({'id': f'{domain}-{number}', 'prompt': prompt}) + '\n'
            for number, prompt in enumerate(PROMPTS[:2])), encoding='utf-8')
    return folder


@pytest.fixture
def bench(models, data, tmp_path, capsys):
    """Run ``memspec bench`` on the tiny models; returns exit code, stdout and stderr."""
    def run(*words, real_time=True):
        common = ('--params-file', str(models), '--result', str(tmp_path / 'result.json'),
                  '--max-tokens', '10')
        work = ('--workloads', str(data), '--prompts', '1', '--runs', '1') if real_time else ()
        code = main.main(['bench', *common, *work, *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err
    return run
