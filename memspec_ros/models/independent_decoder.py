# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What an independent draft is made of: its configuration, tensors, and the decoder over them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional

from memspec_ros.errors import ModelFormatError, did_you_mean
from memspec_ros.models.decoder import Decoder
from memspec_ros.models.decoder_config import DecoderConfig, RopeSettings
from memspec_ros.models.draft_file import OUTPUT_TOKEN_IDS
from memspec_ros.models.embedding import Embedding, embedding_rows, num_rows
from memspec_ros.models.weights import DecoderWeights, DenseLinear, LayerWeights


class _BorrowingDecoder(Decoder):
    """A decoder whose inputs are the target's embeddings, projected to its own width.

    :param weights: its ``embedding`` is the projection, [hidden, target_hidden].
    :param table: the target's, [target_vocab, target_hidden].
    """

    def __init__(self, config: DecoderConfig, weights: DecoderWeights, table: Embedding,
                 *, context_tokens: int) -> None:
        super().__init__(config, weights, context_tokens=context_tokens)
        self._table = table
        self.num_embeddings = num_rows(table)

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Look tokens up in the target's table and project: [batch, width, hidden]."""
        rows = embedding_rows(self._table, token_ids)
        return functional.linear(rows.to(self.dtype), self.weights.embedding)


def independent_config(architecture: Mapping[str, Any]) -> DecoderConfig:
    """Read the architecture of an independent draft's card: fields of :class:`DecoderConfig`.

    :raises ModelFormatError: a field is unknown (the nearest known is named), missing, of the
        wrong type or out of range.
    """
    fields = {**architecture}
    rope = fields.pop('rope', {})
    if not isinstance(rope, Mapping):
        raise ModelFormatError(f'rope of a draft is {rope!r}; it must be an object')
    divisors = tuple(rope.get('frequency_divisors', ()))
    settings = _checked(RopeSettings, {**rope, 'frequency_divisors': divisors})
    config: DecoderConfig = _checked(DecoderConfig, {**fields, 'rope': settings})
    return config


def _checked(kind: Any, values: Mapping[str, Any]) -> Any:
    known = {field.name: field for field in dataclasses.fields(kind)}
    for name in values:
        if name not in known:
            raise ModelFormatError(f"the draft's architecture has an unknown field '{name}'"
                                   f'{did_you_mean(name, known)}')
    missing = [name for name, field in known.items() if name not in values
               and field.default is field.default_factory is dataclasses.MISSING]
    if missing:
        raise ModelFormatError(f"the draft's architecture lacks {', '.join(missing)}")
    try:
        return kind(**values)
    except TypeError as error:
        raise ModelFormatError(f"the draft's architecture has a value of the wrong type: {error}"
                               ) from error


def independent_shapes(config: DecoderConfig, *, head_rows: int | None = None,
                       target_hidden_size: int | None = None) -> dict[str, tuple[int, ...]]:
    """Return the tensors of an independent draft and their shapes.

    :param head_rows: rows of a trimmed head; None for the whole vocabulary.
    :param target_hidden_size: width of the target's embeddings when the draft borrows them.
    """
    hidden = config.hidden_size
    shapes: dict[str, tuple[int, ...]] = {}
    if target_hidden_size is None:
        shapes['embedding'] = (config.vocab_size, hidden)
    else:
        shapes['embedding_projection'] = (hidden, target_hidden_size)
    for index in range(config.num_layers):
        shapes.update({f'layers.{index}.{name}': shape
                       for name, shape in _layer_shapes(config).items()})
    shapes['final_norm'] = (hidden,)
    if not config.tied_head:
        shapes['head'] = (config.vocab_size if head_rows is None else head_rows, hidden)
    if head_rows is not None:
        shapes[OUTPUT_TOKEN_IDS] = (head_rows,)
    return shapes


def _layer_shapes(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    hidden, qkv_rows = config.hidden_size, config.query_size + 2 * config.kv_size
    bias: dict[str, tuple[int, ...]] = {'qkv_bias': (qkv_rows,)} if config.qkv_bias else {}
    return {'attention_norm': (hidden,), 'qkv': (qkv_rows, hidden), **bias,
            'output': (hidden, config.query_size), 'mlp_norm': (hidden,),
            'gate_up': (2 * config.intermediate_size, hidden),
            'down': (hidden, config.intermediate_size)}


def independent_decoder(config: DecoderConfig, weights: Mapping[str, torch.Tensor], *, form: str,
                        context_tokens: int,
                        target_embedding: Embedding | None = None) -> Decoder:
    """Make a decoder over tensors as :func:`independent_shapes` names them; nothing is copied.

    :param form: the dtype of the floats, ``fp32`` or ``bf16``.
    :param target_embedding: [target_vocab, target_hidden], for drafts that borrow it.
    """
    projection = weights.get('embedding_projection')
    if projection is not None and target_embedding is None:
        raise ModelFormatError("the draft borrows the target's embeddings; none were given")
    made = DecoderWeights(
        embedding=weights['embedding'] if projection is None else projection,
        final_norm=weights['final_norm'], dtype=form,
        head=DenseLinear(weights['embedding' if config.tied_head else 'head']),
        layers=tuple(_layer(weights, index) for index in range(config.num_layers)))
    if projection is None or target_embedding is None:
        return Decoder(config, made, context_tokens=context_tokens)
    return _BorrowingDecoder(config, made, target_embedding, context_tokens=context_tokens)


def _layer(weights: Mapping[str, torch.Tensor], index: int) -> LayerWeights:
    def get(name: str) -> torch.Tensor:
        return weights[f'layers.{index}.{name}']

    return LayerWeights(
        attention_norm=get('attention_norm'), output=DenseLinear(get('output')),
        qkv=DenseLinear(get('qkv'), weights.get(f'layers.{index}.qkv_bias')),
        mlp_norm=get('mlp_norm'), gate_up=DenseLinear(get('gate_up')),
        down=DenseLinear(get('down')))
