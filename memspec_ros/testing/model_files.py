# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Small model files in the real formats, written from random checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from safetensors.torch import save_file
from tokenizers import pre_tokenizers

from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.gguf_file import gguf_name
from memspec_ros.models.tensor_shapes import tensor_shapes
from memspec_ros.testing.random_checkpoint import RandomCheckpoint

CHAT_TEMPLATE = ('{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}'
                 '<|assistant|>')
SPECIAL_TOKENS = ('<|end|>', '<|system|>', '<|user|>', '<|assistant|>')


def byte_tokens() -> list[str]:
    """Return a vocabulary of four special tokens, the 256 bytes, and one merged token."""
    return [*SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet()), 'ab']


def tensors_of(checkpoint: RandomCheckpoint) -> dict[str, torch.Tensor]:
    """Return all tensors by their Hugging Face names, float32."""
    return {name: checkpoint.matrix(name).values() if len(shape) == 2 else checkpoint.vector(name)
            for name, shape in tensor_shapes(checkpoint.config).items()}


def write_gguf(path: Path, checkpoint: RandomCheckpoint, *, kind: str = 'F32',
               head_kind: str = '', changes: dict[str, Any] | None = None,
               extra: dict[str, npt.NDArray[Any]] | None = None) -> None:
    """Write a GGUF file with a byte-level tokenizer.

    :param kind: tensor type of the matrices, as the ``gguf`` package names it.
    :param head_kind: the same for embedding table and head; empty is ``kind``.
    :param changes: metadata to add or replace; ``extra`` tensors beside the decoder's.
    """
    config = checkpoint.config
    writer = GGUFWriter(str(path), config.family)
    for key, value in {**_metadata(config), **(changes or {})}.items():
        _add(writer, key, value)
    for name, tensor in tensors_of(checkpoint).items():
        if config.family == 'llama' and name.endswith(('q_proj.weight', 'k_proj.weight')):
            tensor = _as_neighbours(tensor, config.head_dim)
        table = name in ('model.embed_tokens.weight', 'lm_head.weight')
        wanted = 'F32' if tensor.dim() == 1 else (head_kind or kind) if table else kind
        quantised = GGMLQuantizationType[wanted]
        writer.add_tensor(gguf_name(name), quantize(tensor.numpy(), quantised),
                          raw_dtype=quantised)
    for name, values in (extra or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _metadata(config: DecoderConfig) -> dict[str, Any]:
    tokens = byte_tokens()
    family = config.family
    return {
        f'{family}.block_count': config.num_layers,
        f'{family}.context_length': config.max_context_tokens,
        f'{family}.embedding_length': config.hidden_size,
        f'{family}.feed_forward_length': config.intermediate_size,
        f'{family}.attention.head_count': config.num_heads,
        f'{family}.attention.head_count_kv': config.num_kv_heads,
        f'{family}.attention.key_length': config.head_dim,
        f'{family}.attention.layer_norm_rms_epsilon': config.norm_epsilon,
        f'{family}.rope.freq_base': config.rope.base,
        'tokenizer.ggml.model': 'gpt2', 'tokenizer.ggml.pre': 'gpt-2',
        'tokenizer.ggml.tokens': tokens,
        'tokenizer.ggml.token_type': [3] * 4 + [1] * (len(tokens) - 4),
        'tokenizer.ggml.merges': ['a b'], 'tokenizer.ggml.eos_token_id': 0,
        'tokenizer.chat_template': CHAT_TEMPLATE}


def _add(writer: GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)


def _as_neighbours(tensor: torch.Tensor, head_dim: int) -> torch.Tensor:
    """Order rows as GGUF files of the llama family have them: the two of a pair together."""
    return tensor.view(-1, 2, head_dim // 2, tensor.shape[1]).transpose(1, 2).reshape(
        tensor.shape).contiguous()


def write_folder(folder: Path, checkpoint: RandomCheckpoint, *,
                 dtype: torch.dtype = torch.float32, num_shards: int = 1) -> None:
    """Write a Hugging Face folder: config.json, safetensors and tokenizer.json."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / 'config.json', hub_config(checkpoint.config))
    tensors = {name: tensor.to(dtype).contiguous()
               for name, tensor in tensors_of(checkpoint).items()}
    _write_shards(folder, tensors, num_shards)
    write_tokenizer(folder)


def hub_config(config: DecoderConfig) -> dict[str, Any]:
    """Return what ``config.json`` says of a configuration."""
    return {
        'model_type': config.family, 'vocab_size': config.vocab_size,
        'hidden_size': config.hidden_size, 'intermediate_size': config.intermediate_size,
        'num_hidden_layers': config.num_layers, 'num_attention_heads': config.num_heads,
        'num_key_value_heads': config.num_kv_heads, 'head_dim': config.head_dim,
        'max_position_embeddings': config.max_context_tokens,
        'rms_norm_eps': config.norm_epsilon, 'rope_theta': config.rope.base,
        'tie_word_embeddings': config.tied_head, 'hidden_act': 'silu',
        'architectures': ['LlamaForCausalLM' if config.family == 'llama'
                          else 'Qwen2ForCausalLM']}


def write_tokenizer(folder: Path) -> None:
    """Write ``tokenizer.json`` and its configuration, of single bytes."""
    import tokenizers
    from tokenizers import decoders, models
    backend = tokenizers.Tokenizer(models.BPE(
        vocab={text: index for index, text in enumerate(byte_tokens())}, merges=[('a', 'b')]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(SPECIAL_TOKENS))
    backend.save(str(folder / 'tokenizer.json'))
    _write_json(folder / 'tokenizer_config.json', {
        'eos_token': '<|end|>', 'chat_template': CHAT_TEMPLATE})


def _write_shards(folder: Path, tensors: dict[str, torch.Tensor], num_shards: int) -> None:
    if num_shards == 1:
        save_file(tensors, folder / 'model.safetensors')
        return
    names = np.array_split(sorted(tensors), num_shards)
    places: dict[str, str] = {}
    for index, part in enumerate(names, 1):
        file = f'model-{index:05}-of-{num_shards:05}.safetensors'
        save_file({str(name): tensors[str(name)] for name in part}, folder / file)
        places.update({str(name): file for name in part})
    _write_json(folder / 'model.safetensors.index.json', {'weight_map': places})


def _write_json(file: Path, document: dict[str, Any]) -> None:
    file.write_text(json.dumps(document), encoding='utf-8')
