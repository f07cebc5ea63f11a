# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Architectures that the fast decoder has not, through transformers.

transformers is imported when a model is loaded, so that nothing else waits for it. Its own caches
are not used: cropping the dynamic one copies it, and the static one attends over its whole length.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from memspec_ros.errors import DependencyError, ModelError, ModelFormatError
from memspec_ros.models.hidden_ring import HiddenRing
from memspec_ros.models.target_checks import check_extend, check_rollback

DTYPES = {'fp32': torch.float32, 'bf16': torch.bfloat16}


def load_model(path: Path, *, dtype: str, device: str) -> Any:
    """Load a causal language model from a folder, safetensors only, without its own code.

    :raises DependencyError: transformers is not installed.
    :raises ModelFormatError: transformers cannot load it; the message has its reason.
    """
    try:
        transformers: Any = importlib.import_module('transformers')
    except ImportError as error:
        raise DependencyError('this architecture needs the package transformers: pip install '
                              'transformers') from error
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            str(path), dtype=DTYPES[dtype], use_safetensors=True, local_files_only=True)
    except Exception as error:  # it raises OSError, ValueError, KeyError, ... by architecture
        raise ModelFormatError(f'{path}: transformers cannot load it: {error}') from error
    return model.to(device).eval()


class TransformersTarget:
    """A :class:`~memspec_ros.boundaries.Target` on a transformers model.

    :param model: a causal language model whose layers all attend over everything.
    :param end_ids: tokens that end an answer.
    """

    def __init__(self, model: Any, *, context_tokens: int,
                 end_ids: frozenset[int] = frozenset()) -> None:
        text = model.config.get_text_config()
        self.vocab_size = int(text.vocab_size)
        self.context_tokens = context_tokens
        self.end_ids = end_ids
        self.length = 0
        self._model = model
        self._options = _options(model)
        self._cache = _make_cache(text.num_hidden_layers, context_tokens)
        self._ring = HiddenRing(context_tokens=context_tokens, hidden_size=int(text.hidden_size),
                                dtype=model.dtype, device=model.device)

    @property
    def first_hidden(self) -> int:
        """The oldest position whose hidden state is kept."""
        return self._ring.first

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV cache (allocated by the first pass) and of the hidden states."""
        slots = [slot for layer in self._cache.layers for slot in layer.slots]
        num_bytes: int = sum(slot.numel() * slot.element_size() for slot in slots)
        return num_bytes + self._ring.num_bytes

    @torch.inference_mode()
    def extend(self, token_ids: Sequence[int], num_logits: int) -> torch.Tensor:
        """Append tokens and return the logits after the last ``num_logits``: [num_logits, vocab].

        :raises ModelError: the context would overflow, a token is not in the vocabulary, or
            ``num_logits`` is out of range.
        """
        check_extend(self, token_ids, num_logits)
        options = dict(self._options)
        if 'logits_to_keep' in options:
            options['logits_to_keep'] = max(num_logits, 1)  # 0 would mean all
        output = self._model(
            input_ids=torch.tensor([token_ids], device=self._model.device), use_cache=True,
            output_hidden_states=True, return_dict=True, **{
                name: self._cache if value is None else value for name, value in options.items()})
        self._ring.append(output.hidden_states[-1][0])
        self.length += len(token_ids)
        logits: torch.Tensor = output.logits[0]
        return logits[logits.shape[0] - num_logits:, :self.vocab_size]

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` entries.

        :raises ModelError: ``length`` is negative or beyond the cursor.
        """
        check_rollback(self, length)
        for layer in self._cache.layers:
            layer.length = length
        self._ring.rollback(length)
        self.length = length

    def hidden_states(self, start: int, stop: int) -> torch.Tensor:
        """Return last hidden states of positions ``start`` to ``stop - 1``, a view.

        :raises ModelError: some of them are not kept.
        """
        return self._ring.view(start, stop)


def _options(model: Any) -> dict[str, Any]:
    """Return what this model's forward calls its cache (None stands for it) and its logits."""
    names = inspect.signature(model.forward).parameters
    cache_name = 'cache' if 'cache' in names else 'past_key_values'
    if cache_name not in names:
        raise ModelError(f'{type(model).__name__} takes no KV cache, so it cannot be a target')
    options: dict[str, Any] = {cache_name: None}
    return {**options, 'logits_to_keep': 1} if 'logits_to_keep' in names else options


def _make_cache(num_layers: int, context_tokens: int) -> Any:
    """Return a transformers cache of layers whose memory is taken once."""
    utilities: Any = importlib.import_module('transformers.cache_utils')

    class SlotLayer(utilities.DynamicLayer):  # type: ignore[misc]
        """Keys and values in fixed memory; ``length`` is the cursor."""

        is_croppable = True

        def __init__(self) -> None:
            super().__init__()
            self.length = 0
            self.slots: tuple[torch.Tensor, ...] = ()

        def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any,
                   **_options: Any) -> tuple[torch.Tensor, torch.Tensor]:
            """Store [batch, heads, width, size]; return the live part, views."""
            if not self.slots:
                self.slots = tuple(
                    states.new_zeros(*states.shape[:2], context_tokens, states.shape[3])
                    for states in (key_states, value_states))
                self.is_initialized = True
            stop = self.length + key_states.shape[2]
            for slot, states in zip(self.slots, (key_states, value_states), strict=True):
                slot[:, :, self.length:stop] = states
            self.length = stop
            return self.slots[0][:, :, :stop], self.slots[1][:, :, :stop]

        def get_seq_length(self, *_args: Any) -> int:
            """Return the cursor."""
            return self.length

        def get_mask_sizes(self, query: Any) -> tuple[int, int]:
            """Return how many keys a pass sees, and where they begin."""
            width = query if isinstance(query, int) else query.shape[0]
            return self.length + width, 0

    return utilities.Cache(layers=[SlotLayer() for _ in range(num_layers)])
