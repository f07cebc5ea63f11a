# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The target as training needs it: weights, tokenizer, and what identifies its file."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch

from memspec_ros.config import TargetSettings
from memspec_ros.models.checkpoint import open_checkpoint
from memspec_ros.models.checkpoint_forms import CheckpointInForm
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.model_reference import resolve
from memspec_ros.models.native_weights import NativeWeights
from memspec_ros.models.target_description import NATIVE, inspect_target
from memspec_ros.models.tokenizer import Tokenizer
from memspec_ros.models.tokenizer_files import load_tokenizer
from memspec_ros.models.weights import DecoderWeights, load_weights
from memspec_ros.training.batch_decode import Rows
from memspec_ros.training.native_rows import NativeRows
from memspec_ros.training.torch_rows import TorchRows

FP32 = 'fp32'
SERVED = 'served'
FORMS = (SERVED, FP32)
FEW_TOKENS = 64         # a context that every model has


@dataclass(frozen=True, kw_only=True)
class TrainedTarget:
    """A target of the Llama or Qwen2 family; ``checksum`` is its fingerprint.

    ``weights`` are in fp32, read when they are first asked for; ``served`` are those of the node,
    when they were asked for and the native decoder serves them, and ``form`` is what :meth:`rows`
    computes in.
    """

    config: DecoderConfig
    read_weights: Callable[[], DecoderWeights]
    tokenizer: Tokenizer
    checksum: str
    served: NativeWeights | None = None
    form: str = FP32

    @classmethod
    def load(cls, reference: str, *, tokenizer: str = '',
             as_served: bool = False, form: str = SERVED) -> TrainedTarget:
        """Load a target.

        :param reference: a path, ``pkg:MODULE/FILE`` or ``hf:ORG/NAME``.
        :param tokenizer: another file or folder with the tokenizer; '' takes the model's.
        :param as_served: rows compute in the form that the node serves, on the native decoder,
            where there is one. It is faster, and its answers are the node's to the bit.
        :raises ModelError: it is missing, damaged or of another family.
        """
        path = resolve(reference)
        checkpoint = open_checkpoint(path)
        served, in_rows = None, FP32
        if as_served:
            found, file = inspect_target(TargetSettings(
                model=str(path), device='cpu', dtype=node_dtype(form),
                context_tokens=FEW_TOKENS))
            if found.backend == NATIVE and file is not None:
                in_rows = found.dtype
                served = NativeWeights.from_checkpoint(CheckpointInForm(file, in_rows))
        return cls(served=served, form=in_rows, config=checkpoint.config,
                   read_weights=functools.partial(load_weights, checkpoint, dtype=FP32),
                   tokenizer=load_tokenizer(resolve(tokenizer) if tokenizer else path),
                   checksum=checkpoint.fingerprint())

    @functools.cached_property
    def weights(self) -> DecoderWeights:
        """The target's weights in fp32."""
        return self.read_weights()

    def rows(self, *, num_rows: int, capacity: int) -> Rows:
        """Return rows for a batch decoder.

        :param capacity: tokens per sequence, prompt and answer together.
        """
        if self.served is None:
            return TorchRows(self.config, self.weights, num_rows=num_rows, capacity=capacity)
        return NativeRows(self.config, self.served, num_rows=num_rows, capacity=capacity,
                          num_threads=torch.get_num_threads(),
                          kv_dtype=torch.float32 if self.form == FP32 else torch.float16)


def node_dtype(form: str) -> str:
    """Return the node's ``target.dtype`` for one of :data:`FORMS`."""
    return FP32 if form == FP32 else 'auto'
