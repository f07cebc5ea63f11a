# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A random target of a few thousand weights, as training sees targets."""

import torch

from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.weights import DecoderWeights, DenseLinear, LayerWeights
from memspec_ros.training.trained_target import TrainedTarget

CONFIG = DecoderConfig(family='llama', vocab_size=40, hidden_size=16, intermediate_size=24,
                       num_layers=2, num_heads=4, num_kv_heads=2, head_dim=4,
                       max_context_tokens=256)


class TinyTokenizer:
    """Tokens are characters' code points modulo the vocabulary; token 3 ends an answer."""

    end_ids = frozenset({3})
    vocab_size = CONFIG.vocab_size

    def encode_chat(self, messages):
        return [2, 3, *(4 + ord(letter) % 30 for letter in messages[0].content), 2]

    def content_checksum(self):
        return '0' * 64


def make_weights(seed=0):
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows, columns):
        return DenseLinear(torch.randn(rows, columns, generator=generator) * columns ** -0.5)

    config = CONFIG
    embedding = torch.randn(config.vocab_size, config.hidden_size, generator=generator)
    ones = torch.ones(config.hidden_size)
    layers = tuple(LayerWeights(
        attention_norm=ones, mlp_norm=ones,
        qkv=matrix(config.query_size + 2 * config.kv_size, config.hidden_size),
        output=matrix(config.hidden_size, config.query_size),
        gate_up=matrix(2 * config.intermediate_size, config.hidden_size),
        down=matrix(config.hidden_size, config.intermediate_size)) for _ in range(2))
    return DecoderWeights(embedding=embedding, layers=layers, final_norm=ones,
                          head=matrix(config.vocab_size, config.hidden_size), dtype='fp32')


def make_target(seed=0):
    return TrainedTarget(config=CONFIG, read_weights=lambda: make_weights(seed),
                         tokenizer=TinyTokenizer(), checksum='f' * 64)
