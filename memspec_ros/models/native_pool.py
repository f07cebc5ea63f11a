# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The threads of the native library, and single matrix products on them."""

from __future__ import annotations

import functools
import weakref

import torch

from memspec_ros.errors import ModelError
from memspec_ros.models import native_library as native
from memspec_ros.models.native_matrix import PackedMatrix


class NativePool:
    """Threads that passes run on, for all decoders of a process that run one after another.

    :raises ModelError: ``num_threads`` is out of range, or the threads cannot be had.
    """

    def __init__(self, num_threads: int) -> None:
        library = native.load()
        handle = library.memspec_pool_create(num_threads)
        if not handle:
            raise ModelError(f'a pool of {num_threads} threads cannot be made; 1 to 64 may be '
                             'asked for')
        self.num_threads = num_threads
        self.handle = handle
        # At the end of the process a decode thread may still use it: it is left alone then.
        weakref.finalize(self, library.memspec_pool_destroy, handle).atexit = False

    def linear(self, matrix: PackedMatrix, inputs: torch.Tensor,
               bias: torch.Tensor | None = None) -> torch.Tensor:
        """Return ``inputs @ matrix^T + bias``: [width, columns] to [width, rows], float32."""
        inputs = inputs.float().contiguous()
        if inputs.dim() != 2 or inputs.shape[1] != matrix.columns:
            raise ModelError(f'inputs of a matrix of {matrix.rows} x {matrix.columns} are '
                             f'{list(inputs.shape)}')
        outputs = torch.empty(inputs.shape[0], matrix.rows)
        native.check(native.load().memspec_linear(
            self.handle, matrix.struct(), None if bias is None else bias.data_ptr(),
            inputs.data_ptr(), inputs.shape[0], outputs.data_ptr()), 'a matrix product')
        return outputs


@functools.cache
def shared_pool(num_threads: int) -> NativePool:
    """Return the process's pool of that many threads."""
    return NativePool(num_threads)
