# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Decoders of the Llama and Qwen2 families on a CPU, their whole pass in the native library.

A row's logits depend on the tokens up to it alone, bit for bit: not on how they were split into
passes, nor on the number of threads.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence

import torch

from memspec_ros.errors import ModelError, UnsupportedModelError
from memspec_ros.models import native_library as native
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.native_library import is_available
from memspec_ros.models.native_matrix import PackedMatrix
from memspec_ros.models.native_pool import NativePool, shared_pool
from memspec_ros.models.native_weights import NativeLayer, NativeWeights

__all__ = ['NativeDecoder', 'NativeKVCache', 'NativeLayer', 'NativePool', 'NativeWeights',
           'is_available', 'shared_pool']

MAX_WIDTH = 512
RESERVED_LOGITS = 16
_KV_KINDS = {torch.float16: native.FP16, torch.float32: native.FP32}
_KV_BLOCK = 64


class NativeKVCache:
    """Keys and values of all layers in the library's layout; ``length`` is the cursor."""

    def __init__(self, config: DecoderConfig, *, context_tokens: int,
                 dtype: torch.dtype = torch.float16) -> None:
        shape = _kv_shape(config, context_tokens)
        self._take(context_tokens, torch.zeros(shape, dtype=dtype),
                   torch.zeros(shape, dtype=dtype))

    def _take(self, context_tokens: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.context_tokens = context_tokens
        self.keys, self.values = keys, values
        self.capacity = keys.shape[2]
        self.length = 0

    @classmethod
    def of(cls, context_tokens: int, keys: torch.Tensor, values: torch.Tensor) -> NativeKVCache:
        """Return a KV cache over given memory, [layers, kv_heads, capacity, head_dim] each."""
        made = cls.__new__(cls)
        made._take(context_tokens, keys, values)
        return made

    @property
    def num_bytes(self) -> int:
        """Bytes allocated."""
        return 2 * self.keys.numel() * self.keys.element_size()

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` tokens.

        :raises ModelError: ``length`` is negative or beyond the cursor.
        """
        if not 0 <= length <= self.length:
            raise ModelError(f'cannot roll the KV cache back to {length}: it holds '
                             f'{self.length} tokens')
        self.length = length


class NativeKVCaches:
    """KV caches of several sequences in one block, which :meth:`NativeDecoder.forward_rows`
    takes together. Each is a KV cache of its own, too."""

    def __init__(self, config: DecoderConfig, *, count: int, context_tokens: int,
                 dtype: torch.dtype = torch.float16) -> None:
        shape = (count, *_kv_shape(config, context_tokens))
        self.keys = torch.zeros(shape, dtype=dtype)
        self.values = torch.zeros(shape, dtype=dtype)
        self._caches = [NativeKVCache.of(context_tokens, self.keys[slot], self.values[slot])
                        for slot in range(count)]

    def __len__(self) -> int:
        return len(self._caches)

    def __getitem__(self, slot: int) -> NativeKVCache:
        return self._caches[slot]


class NativeDecoder:
    """A decoder with its weights and the memory of a pass, all taken at construction.

    :param context_tokens: longest KV cache that will be given.
    :param max_width: most tokens in one pass.
    :param kv_dtype: float16 or float32.
    :raises DependencyError: the library is not there.
    :raises UnsupportedModelError: sizes that it has no kernels for.
    """

    def __init__(self, config: DecoderConfig, weights: NativeWeights, *, context_tokens: int,
                 pool: NativePool, max_width: int = MAX_WIDTH,
                 kv_dtype: torch.dtype = torch.float16) -> None:
        self.config = config
        self.weights = weights
        self.pool = pool
        self.context_tokens = context_tokens
        self.max_width = max_width
        self.kv_dtype = kv_dtype
        self._library = native.load()
        self._cosines, self._sines = _rotary_table(config, context_tokens)
        self._handle = self._create()
        # At the end of the process a decode thread may still be in a pass: nothing is freed then.
        weakref.finalize(self, self._library.memspec_decoder_destroy,
                         self._handle).atexit = False
        self.vocab_size = 0 if weights.head is None else weights.head.rows
        self._token_ids = (ctypes.c_int32 * max_width)()
        self._best_ids = (ctypes.c_int32 * max_width)()
        self._logits = torch.empty(RESERVED_LOGITS if weights.head else 0, self.vocab_size)
        self._hidden = torch.empty(max_width, config.hidden_size)
        self._pass = native.PassStruct()
        self._slots = (ctypes.c_int32 * max_width)()
        self._positions = (ctypes.c_int32 * max_width)()

    def _create(self) -> ctypes.c_void_p:
        config, weights = self.config, self.weights
        layers = (native.LayerStruct * len(weights.layers))(
            *(layer.struct() for layer in weights.layers))
        norm = weights.final_norm
        described = native.ConfigStruct(
            num_layers=len(weights.layers), hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size, num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads, head_dim=config.head_dim,
            context_tokens=self.context_tokens, max_width=self.max_width,
            norm_epsilon=config.norm_epsilon, kv_kind=_KV_KINDS[self.kv_dtype],
            cosines=self._cosines.data_ptr(), sines=self._sines.data_ptr(),
            final_norm=None if norm is None else norm.data_ptr(), layers=layers,
            embedding=_struct(weights.embedding), head=_struct(weights.head))
        handle = ctypes.c_void_p()
        native.check(self._library.memspec_decoder_create(
            ctypes.byref(described), self.pool.handle, ctypes.byref(handle)),
            f'hidden size {config.hidden_size}, intermediate size {config.intermediate_size}, '
            f'{config.num_heads} heads of {config.head_dim}, {config.num_kv_heads} KV heads')
        return handle

    @property
    def num_bytes(self) -> int:
        """Bytes of the memory of a pass (weights and KV caches apart)."""
        return (int(self._library.memspec_decoder_bytes(self._handle))
                + 4 * (self._logits.numel() + self._hidden.numel()))

    def make_kv_cache(self, *, context_tokens: int) -> NativeKVCache:
        """Return a KV cache for this decoder."""
        if context_tokens > self.context_tokens:
            raise ModelError(f'a KV cache of {context_tokens} tokens is longer than the '
                             f"decoder's {self.context_tokens}")
        return NativeKVCache(self.config, context_tokens=context_tokens, dtype=self.kv_dtype)

    def forward(self, token_ids: Sequence[int], kv_cache: NativeKVCache,
                num_logits: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Append tokens to the KV cache and return logits and last hidden states.

        :param token_ids: 1 to ``max_width`` of them.
        :param num_logits: how many of the last positions get logits, 0 to width.
        :returns: logits [num_logits, vocab_size] and hidden states after the final norm
            [width, hidden], float32, both valid until the next call.
        :raises ModelError: the KV cache would overflow, or an argument is out of range.
        """
        self._set_tokens(token_ids)
        return self._run(len(token_ids), kv_cache, num_logits)

    def forward_embeddings(self, embeddings: torch.Tensor, kv_cache: NativeKVCache,
                           num_logits: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Do what :meth:`forward` does, from the first layer's inputs [width, hidden]."""
        embeddings = embeddings.float().contiguous()
        self._pass.token_ids = None
        self._pass.embeddings = embeddings.data_ptr()
        return self._run(embeddings.shape[0], kv_cache, num_logits)

    def best_tokens(self, token_ids: Sequence[int], kv_cache: NativeKVCache,
                    num_logits: int) -> tuple[list[int], torch.Tensor]:
        """Append tokens and return the ids of the largest logits, which are not written out.

        :returns: ``num_logits`` ids (the lowest of equals) and hidden states as
            :meth:`forward`.
        """
        self._set_tokens(token_ids)
        hidden = self._call(len(token_ids), kv_cache, num_logits, None,
                            ctypes.addressof(self._best_ids))
        return self._best_ids[:num_logits], hidden

    def forward_rows(self, token_ids: Sequence[int], kv_caches: NativeKVCaches,
                     slots: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Append one token to each of several KV caches, in one pass.

        :param slots: the KV cache of each token, no two the same.
        :returns: as :meth:`forward`, with logits for every row.
        :raises ModelError: a KV cache is full, or named twice.
        """
        if len(set(slots)) != len(token_ids) or len(slots) != len(token_ids):
            raise ModelError(f'{len(token_ids)} tokens need as many different KV caches, not '
                             f'{list(slots)}')
        self._set_tokens(token_ids)
        width, call = len(token_ids), self._pass
        self._slots[:width] = list(slots)
        self._positions[:width] = [kv_caches[slot].length for slot in slots]
        call.num_slots = len(kv_caches)
        call.slots, call.positions = map(ctypes.addressof, (self._slots, self._positions))
        try:
            self._logits_room(width)
            hidden = self._pass_over(width, kv_caches.keys, kv_caches.values, width,
                                     self._logits.data_ptr(), None)
        finally:
            call.slots = call.positions = None
        for slot in slots:
            kv_caches[slot].length += 1
        return self._logits[:width], hidden

    def _set_tokens(self, token_ids: Sequence[int]) -> None:
        if not 1 <= len(token_ids) <= self.max_width:
            raise ModelError(f'a pass takes 1 to {self.max_width} tokens, not {len(token_ids)}')
        self._token_ids[:len(token_ids)] = list(token_ids)
        self._pass.token_ids = ctypes.addressof(self._token_ids)
        self._pass.embeddings = None

    def _run(self, width: int, kv_cache: NativeKVCache,
             num_logits: int) -> tuple[torch.Tensor, torch.Tensor]:
        self._logits_room(num_logits)
        hidden = self._call(width, kv_cache, num_logits, self._logits.data_ptr(), None)
        return self._logits[:num_logits], hidden

    def _logits_room(self, num_logits: int) -> None:
        if num_logits > self._logits.shape[0] and self.vocab_size:
            self._logits = torch.empty(num_logits, self.vocab_size)

    def _call(self, width: int, kv_cache: NativeKVCache, num_logits: int,
              logits: int | None, best_ids: int | None) -> torch.Tensor:
        if kv_cache.length + width > kv_cache.context_tokens:
            raise ModelError(f'{kv_cache.length} tokens in the KV cache and {width} more pass '
                             f'its {kv_cache.context_tokens} context tokens')
        self._pass.position = kv_cache.length
        hidden = self._pass_over(width, kv_cache.keys, kv_cache.values, num_logits, logits,
                                 best_ids)
        kv_cache.length += width
        return hidden

    def _pass_over(self, width: int, keys: torch.Tensor, values: torch.Tensor, num_logits: int,
                   logits: int | None, best_ids: int | None) -> torch.Tensor:
        call = self._pass
        call.width, call.num_logits, call.kv_capacity = width, num_logits, keys.shape[-2]
        call.keys, call.values = keys.data_ptr(), values.data_ptr()
        call.logits, call.best_ids = logits, best_ids
        call.hidden, call.hidden_capacity = self._hidden.data_ptr(), self.max_width
        native.check(self._library.memspec_decoder_forward(self._handle, ctypes.byref(call)),
                     f'a pass of {width} tokens with {num_logits} logits')
        return self._hidden[:width]


def _kv_shape(config: DecoderConfig, context_tokens: int) -> tuple[int, int, int, int]:
    capacity = -(-context_tokens // _KV_BLOCK) * _KV_BLOCK
    return config.num_layers, config.num_kv_heads, capacity, config.head_dim


def _struct(matrix: PackedMatrix | None) -> native.MatrixStruct:
    return native.MatrixStruct() if matrix is None else matrix.struct()


def _rotary_table(config: DecoderConfig,
                  context_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines and sines, [context_tokens, head_dim / 2]."""
    if config.head_dim % 2:
        raise UnsupportedModelError(f'head_dim is {config.head_dim}; rotary embedding needs it '
                                    'even')
    frequencies = torch.tensor(config.rope.inverse_frequencies(config.head_dim))
    angles = torch.outer(torch.arange(context_tokens, dtype=torch.float32), frequencies)
    return angles.cos(), angles.sin()
