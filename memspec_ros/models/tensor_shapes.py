# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The tensors that a decoder of a given shape consists of, by their Hugging Face names."""

from __future__ import annotations

from memspec_ros.models.decoder_config import DecoderConfig

Shape = tuple[int, ...]


def tensor_shapes(config: DecoderConfig) -> dict[str, Shape]:
    """Return the shape of every tensor; a tied head has none of its own."""
    shapes: dict[str, Shape] = {
        'model.embed_tokens.weight': (config.vocab_size, config.hidden_size),
        'model.norm.weight': (config.hidden_size,)}
    if not config.tied_head:
        shapes['lm_head.weight'] = shapes['model.embed_tokens.weight']
    layer = layer_shapes(config)
    for index in range(config.num_layers):
        shapes.update({f'model.layers.{index}.{part}': shape for part, shape in layer.items()})
    return shapes


def layer_shapes(config: DecoderConfig) -> dict[str, Shape]:
    """Return the shapes of one layer's tensors."""
    hidden, mlp = config.hidden_size, config.intermediate_size
    shapes: dict[str, Shape] = {
        'input_layernorm.weight': (hidden,), 'post_attention_layernorm.weight': (hidden,),
        'self_attn.o_proj.weight': (hidden, config.query_size),
        'mlp.gate_proj.weight': (mlp, hidden), 'mlp.up_proj.weight': (mlp, hidden),
        'mlp.down_proj.weight': (hidden, mlp)}
    rows = {'q_proj': config.query_size, 'k_proj': config.kv_size, 'v_proj': config.kv_size}
    for part, size in rows.items():
        shapes[f'self_attn.{part}.weight'] = (size, hidden)
        if config.qkv_bias:
            shapes[f'self_attn.{part}.bias'] = (size,)
    return shapes
