# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A target and a pool of drafts of random weights: everything real, and small."""

import yaml

from memspec_ros.testing.model_files import write_gguf
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, tiny_config
from memspec_ros.testing.tiny_draft import tiny_config as tiny_draft_config
from memspec_ros.testing.tiny_draft import write_tiny_draft

# Four special tokens, the bytes and one merged token, as the tokenizer of write_gguf has them.
VOCAB_SIZE = 261
DRAFTS = ('general', 'code', 'math', 'law')


def write_tiny_model(folder):
    """Write the files and return their parameters, by dotted name."""
    write_gguf(folder / 'target.gguf', RandomCheckpoint(tiny_config(
        vocab_size=VOCAB_SIZE, hidden_size=32, intermediate_size=48, num_heads=2, num_kv_heads=1)))
    for seed, name in enumerate(DRAFTS):
        write_tiny_draft(folder / f'{name}.safetensors', seed=seed, domain=name,
                         config=tiny_draft_config(vocab_size=VOCAB_SIZE))
    pool = {'name': 'tiny', 'target': 'target.gguf', 'drafts': [
        {'name': name, 'domain': name, 'file': f'{name}.safetensors'} for name in DRAFTS]}
    (folder / 'pool.yaml').write_text(yaml.safe_dump(pool), encoding='utf-8')
    return {'target.model': str(folder / 'target.gguf'), 'target.device': 'cpu',
            'target.context_tokens': 1024, 'target.num_threads': 1,
            'draft.pool': str(folder / 'pool.yaml'), 'draft.context_tokens': 64,
            'runtime.cache_capacity': 2, 'runtime.headroom_mb': 1.0}


def ros_arguments(parameters):
    """Return parameters as a process takes them."""
    return ['--ros-args', *(part for name, value in parameters.items()
                            for part in ('-p', f'{name}:={yaml_value(value)}'))]


def yaml_value(value):
    """Return a value as YAML on one line."""
    return yaml.safe_dump(value, default_flow_style=True).removesuffix('\n...\n').strip()
