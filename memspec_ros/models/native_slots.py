# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A feature-conditioned draft's slots in the native library: one call each.

A step is a dozen products with one vector, some microseconds each, so that dispatching two dozen
PyTorch operations takes many times as long as the step itself.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from ctypes import Structure, c_float, c_int32, c_void_p
from typing import ClassVar

import torch

from memspec_ros.errors import ModelError
from memspec_ros.models import native_library as native
from memspec_ros.models.embedding import Embedding, num_rows
from memspec_ros.models.feature_network import MAX_MATCH, NORM_EPSILON, FeatureConfig
from memspec_ros.models.feature_slots import MAX_SLOTS, LookedUp
from memspec_ros.models.native_library import MatrixStruct
from memspec_ros.models.native_matrix import PackedMatrix
from memspec_ros.models.native_pool import NativePool

MATRICES = ('token_in', 'state_in', 'own_in', 'copy_in', 'query', 'key', 'key_before', 'value',
            'attention_out', 'gate_up', 'down', 'head')
VECTORS = ('match_in', 'attention_norm', 'distance', 'mlp_norm', 'out_norm', 'row_bias',
           'copy_gate', 'copy_bias')
_Slots = c_int32 * MAX_SLOTS


class FeatureStruct(Structure):
    """``MsFeatureConfig``."""

    _fields_: ClassVar = [
        *((name, c_int32) for name in ('hidden_size', 'width', 'num_heads', 'intermediate',
                                       'window', 'max_match', 'capacity', 'vocab_size')),
        ('norm_epsilon', c_float), ('embedding', MatrixStruct), ('float_embedding', c_void_p),
        *((name, MatrixStruct) for name in MATRICES), *((name, c_void_p) for name in VECTORS),
        ('row_tokens', c_void_p), ('entries', c_void_p)]


class SlotsStruct(Structure):
    """``MsSlots``."""

    _fields_: ClassVar = [
        ('token_ids', c_void_p), ('copied_ids', c_void_p), ('matches', c_void_p),
        ('num_slots', c_int32), ('states', c_void_p), ('num_predicted', c_int32),
        ('predicted', c_void_p), ('outputs', c_void_p)]


class NativeSlots:
    """:class:`~memspec_ros.models.feature_slots.FeatureSlots` in the native library.

    What a slot yields does not depend, bit for bit, on the slots fed with it, nor on the number
    of threads. Nothing is checked or read of the weights before a slot runs.

    :param matrices: packed, by the names of feature_network.py, and ``head``.
    :param weights: float32 vectors, by the same names.
    :param row_tokens: the target's token of each row of the head, int32, ascending.
    :param memory: float32 [2, FeatureEntries.capacity(config), width].
    :param outputs: filled with the outputs of the slots that predict, [MAX_SLOTS, width].
    :raises UnsupportedModelError: sizes that the library has no kernels for.
    """

    def __init__(self, config: FeatureConfig, matrices: Mapping[str, PackedMatrix],
                 weights: Mapping[str, torch.Tensor], *, row_tokens: torch.Tensor,
                 embedding: Embedding, memory: torch.Tensor, pool: NativePool,
                 outputs: torch.Tensor | None = None) -> None:
        struct = _struct(config, matrices, weights, embedding)
        struct.capacity, struct.entries = memory.shape[1], memory.data_ptr()
        struct.row_tokens = row_tokens.data_ptr()
        self._hidden_size = config.hidden_size
        self._alive = (matrices, weights, row_tokens, embedding, memory, pool, outputs)
        self._library = native.load()
        handle = c_void_p()
        native.check(self._library.memspec_feature_create(
            ctypes.byref(struct), pool.handle, ctypes.byref(handle)), f'a draft of {config}')
        self._handle = handle
        weakref.finalize(self, self._library.memspec_feature_destroy, handle).atexit = False
        self._tokens, self._copied, self._matches = _Slots(), _Slots(), _Slots()
        self._predicted = _Slots()
        self._struct = SlotsStruct(
            *map(ctypes.addressof, (self._tokens, self._copied, self._matches)), 0, None, 0,
            ctypes.addressof(self._predicted), None if outputs is None else outputs.data_ptr())

    def restart(self) -> None:
        """Forget all slots."""
        self._library.memspec_feature_restart(self._handle)

    def rewind(self) -> None:
        """Forget the steps."""
        self._library.memspec_feature_rewind(self._handle)

    def feed(self, tokens: Sequence[int], looked_up: Sequence[LookedUp], states: torch.Tensor,
             num_predicted: int) -> list[int]:
        """Run slots; see :meth:`FeatureSlots.feed`.

        :raises ModelError: a token is not in the vocabulary, or there are too many slots.
        """
        count = len(tokens)
        if count > MAX_SLOTS or states.shape != (count, self._hidden_size):
            raise ModelError(f'{count} slots with states {list(states.shape)} were given; at '
                             f'most {MAX_SLOTS} may be, with {self._hidden_size} channels')
        states = states.to('cpu', torch.float32).contiguous()
        self._tokens[:count] = list(tokens)
        self._copied[:count] = [copied for copied, _ in looked_up]
        self._matches[:count] = [match for _, match in looked_up]
        return self._run(count, states.data_ptr(), num_predicted)

    def step(self, token: int, looked_up: LookedUp) -> int:
        """Run a slot from the last output; see :meth:`FeatureSlots.step`.

        :raises ModelError: there is no output, or there were too many steps.
        """
        self._tokens[0] = token
        self._copied[0], self._matches[0] = looked_up
        return self._run(1, None, 1)[0]

    def _run(self, count: int, states: int | None, num_predicted: int) -> list[int]:
        struct = self._struct
        struct.num_slots, struct.states, struct.num_predicted = count, states, num_predicted
        native.check(self._library.memspec_feature_run(self._handle, ctypes.byref(struct)),
                     'slots of a feature-conditioned draft')
        return self._predicted[:num_predicted]


def _struct(config: FeatureConfig, matrices: Mapping[str, PackedMatrix],
            weights: Mapping[str, torch.Tensor], embedding: Embedding) -> FeatureStruct:
    struct = FeatureStruct(
        hidden_size=config.hidden_size, width=config.width, num_heads=config.num_heads,
        intermediate=config.intermediate, window=config.window, max_match=MAX_MATCH,
        norm_epsilon=NORM_EPSILON)
    for name in MATRICES:
        setattr(struct, name, matrices[name].struct())
    for name in VECTORS:
        setattr(struct, name, weights[name].data_ptr())
    struct.vocab_size = num_rows(embedding)
    if isinstance(embedding, PackedMatrix):
        struct.embedding = embedding.struct()
    else:
        struct.float_embedding = embedding.data_ptr()
    return struct
