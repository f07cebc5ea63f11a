# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Loading the target: its weights, its KV cache and its tokenizer."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from memspec_ros.boundaries import Target
from memspec_ros.config import TargetSettings
from memspec_ros.errors import ModelFormatError
from memspec_ros.models.checkpoint import ModelFile, open_checkpoint
from memspec_ros.models.checkpoint_forms import CheckpointInForm
from memspec_ros.models.decoder import Decoder
from memspec_ros.models.embedding import Embedding
from memspec_ros.models.fast_target import BLOCK_TOKENS, FastTarget
from memspec_ros.models.heap import trim_heap
from memspec_ros.models.model_reference import resolve
from memspec_ros.models.native_decoder import NativeDecoder, NativeWeights, shared_pool
from memspec_ros.models.native_matrix import PackedMatrix
from memspec_ros.models.pass_graphs import CudaGraphMaker, GraphedRow
from memspec_ros.models.row_decoders import NativeRow, RowDecoder, TorchRow
from memspec_ros.models.safetensors_folder import fingerprint
from memspec_ros.models.target_description import (
    NATIVE,
    TargetDescription,
    inspect_target,
)
from memspec_ros.models.tokenizer import Tokenizer
from memspec_ros.models.tokenizer_files import load_tokenizer
from memspec_ros.models.weights import load_weights

Report = Callable[[str], None]
# A file above this leaves the page cache after loading: on Jetson it shares the GPU's memory.
KEPT_FILE_BYTES = 512 << 20


@dataclass(frozen=True, kw_only=True)
class LoadedTarget:
    """A target that can serve.

    :param num_bytes: weights in memory; ``kv_bytes`` KV cache and hidden states.
    :param checksum: tells this model's file from others, whatever its form in memory.
    :param packed_embedding: the table of a native target, as its passes use it.
    """

    target: Target
    tokenizer: Tokenizer
    description: TargetDescription
    num_bytes: int
    kv_bytes: int
    checksum: str
    packed_embedding: PackedMatrix | None = None

    @property
    def name(self) -> str:
        """The model's name, from its file."""
        return self.description.name

    def shared_embedding(self) -> Embedding:
        """Return the embedding table for drafts that borrow it, [vocab_size, hidden_size].

        The target's own where it is native, so that it takes no more memory; else floats.
        """
        return self.embedding() if self.packed_embedding is None else self.packed_embedding

    def embedding(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Read the embedding table again, [vocab_size, hidden_size]."""
        return self._table('model.embed_tokens.weight', dtype)

    def output_rows(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Read the head again, [vocab_size, hidden_size]; the embedding table when it is tied."""
        tied = open_checkpoint(self.description.path).config.tied_head
        return self._table('model.embed_tokens.weight' if tied else 'lm_head.weight', dtype)

    def _table(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        file = open_checkpoint(self.description.path)
        return file.matrix(name).values().to(dtype)


def load_target(settings: TargetSettings, *, report: Report = lambda _: None,
                roots: Sequence[Path] = ()) -> LoadedTarget:
    """Load the target that the settings name.

    :param report: told of each stage with its sizes, before it begins.
    :param roots: folders that a relative path is looked for in, before the working directory.
    :raises ConfigError: no model is named, or the context is longer than the model's.
    :raises ModelError: a file is missing, damaged, or of an architecture that nothing serves.
    :raises DependencyError: the architecture needs transformers, which is not installed.
    """
    found, file = inspect_target(settings, roots)
    torch.set_num_threads(num_threads(settings))
    report(f'tokenizer of {found.name}')
    if settings.tokenizer:
        tokenizer = load_tokenizer(resolve(settings.tokenizer, roots))
    else:
        tokenizer = load_tokenizer(found.path) if file is None else file.load_tokenizer()
    if tokenizer.vocab_size > found.vocab_size:
        raise ModelFormatError(f'{found.path}: the tokenizer has {tokenizer.vocab_size} tokens, '
                               f'the model {found.vocab_size}')
    report(f'target {found.name} ({found.architecture}, {found.dtype}, {found.backend} on '
           f'{found.device}): weights {found.weight_bytes / 1e6:.0f} MB, KV cache of '
           f'{found.context_tokens} tokens {found.kv_bytes / 1e6:.0f} MB')
    if file is None:
        return _load_transformers(found, tokenizer)
    return _load_fast(settings, found, file, tokenizer)


def num_threads(settings: TargetSettings) -> int:
    """Return the CPU threads of a pass: as set, or the cores that this process may use."""
    return settings.num_threads or len(os.sched_getaffinity(0))


def _load_fast(settings: TargetSettings, found: TargetDescription, file: ModelFile,
               tokenizer: Tokenizer) -> LoadedTarget:
    make = _native_row if found.backend == NATIVE else _torch_row
    row, num_bytes = make(settings, file, found)
    if found.backend == NATIVE:
        # PyTorch's idle threads spin for milliseconds after each of its operations, on the very
        # cores that the library's threads wait for each other on: a pass of width 4 takes 11 ms
        # then in place of 4.5 (two cores). What is left for PyTorch while decoding is small.
        torch.set_num_threads(1)
    _release_pages(file)
    trim_heap()
    packed = row.decoder.weights.embedding if isinstance(row, NativeRow) else None
    target = FastTarget(row, context_tokens=settings.context_tokens, end_ids=tokenizer.end_ids,
                        deterministic=settings.deterministic)
    return LoadedTarget(target=target, tokenizer=tokenizer, description=found,
                        num_bytes=num_bytes, kv_bytes=target.kv_bytes,
                        checksum=file.fingerprint(), packed_embedding=packed)


def _room(settings: TargetSettings) -> int:
    return -(-settings.context_tokens // BLOCK_TOKENS) * BLOCK_TOKENS


def _torch_row(settings: TargetSettings, file: ModelFile,
               found: TargetDescription) -> tuple[RowDecoder, int]:
    weights = load_weights(file, dtype=found.dtype, device=torch.device(found.device))
    decoder = Decoder(file.config, weights, context_tokens=_room(settings))
    if found.device == 'cuda':
        row = GraphedRow(decoder, context_tokens=_room(settings), maker=CudaGraphMaker())
        return row, weights.num_bytes
    return TorchRow(decoder, context_tokens=_room(settings)), weights.num_bytes


def _native_row(settings: TargetSettings, file: ModelFile,
                found: TargetDescription) -> tuple[RowDecoder, int]:
    weights = NativeWeights.from_checkpoint(
        CheckpointInForm(file, found.dtype, keeps_tables=file.table_bits > 0))
    decoder = NativeDecoder(
        file.config, weights, context_tokens=_room(settings),
        pool=shared_pool(num_threads(settings)),
        kv_dtype=torch.float32 if found.dtype == 'fp32' else torch.float16)
    return NativeRow(decoder, context_tokens=_room(settings)), weights.num_bytes


def _load_transformers(found: TargetDescription, tokenizer: Tokenizer) -> LoadedTarget:
    from memspec_ros.models.transformers_target import TransformersTarget, load_model
    model = load_model(found.path, dtype=found.dtype, device=found.device)
    target = TransformersTarget(model, context_tokens=found.context_tokens,
                                end_ids=tokenizer.end_ids)
    target.extend([0], 0)  # takes the KV cache's memory now and not in the first goal
    target.rollback(0)
    num_bytes = sum(part.numel() * part.element_size() for part in model.parameters())
    return LoadedTarget(target=target, tokenizer=tokenizer, description=found,
                        num_bytes=num_bytes, kv_bytes=target.kv_bytes,
                        checksum=fingerprint(found.path))


def _release_pages(file: ModelFile) -> None:
    """Let the kernel drop a large file's pages; the weights have their own memory now."""
    if file.num_bytes < KEPT_FILE_BYTES:
        return
    paths = [file.path] if file.path.is_file() else sorted(file.path.glob('*.safetensors'))
    for path in paths:
        with path.open('rb') as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
