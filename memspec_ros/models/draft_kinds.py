# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a kind of draft tells of itself, so that slots can hold it without knowing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from memspec_ros.boundaries import Draft
from memspec_ros.errors import ModelFormatError
from memspec_ros.models.draft_content import NONE, DraftContent, SlotLayout
from memspec_ros.models.embedding import Embedding


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What drafts share: the target they draft for, and the form they run in.

    :param form: floats of the drafts in memory: ``fp32`` or ``bf16``.
    :param matrix_dtype: bits of independent drafts' matrices in memory: ``auto`` keeps those of
        their files, ``bf16``, ``int8`` or ``int4`` round to so many; '' makes all plain floats
        of ``form``.
    :param num_threads: threads of the native library's passes.
    :param context_tokens: recent tokens that a draft looks at.
    :param vocab_size: rows of the target's logits; ``hidden_size`` the width of its states.
    :param embedding: the target's table [vocab_size, hidden_size]; None when only sizes matter.
    :param tokenizer_checksum: content of the target's tokens; '' when it is not known yet.
    """

    form: str
    context_tokens: int
    vocab_size: int
    hidden_size: int
    embedding: Embedding | None = None
    device: str = 'cpu'
    tokenizer_checksum: str = ''
    matrix_dtype: str = ''
    num_threads: int = 1


class DraftKind(Protocol):
    """One kind of draft. Everything but :meth:`make` and :meth:`derive` needs headers only."""

    def check(self, content: DraftContent, surroundings: Surroundings) -> None:
        """Raise ModelFormatError when the tensors are not those of the architecture."""

    def needs_embedding(self, content: DraftContent) -> bool:
        """Whether it needs the target's embeddings."""

    def layout(self, content: DraftContent, surroundings: Surroundings) -> SlotLayout:
        """Where its tensors lie in a slot, and in what form.

        There may be some beside the file's, computed at the end of a load.
        """

    def memory_bytes(self, content: DraftContent, surroundings: Surroundings) -> int:
        """Bytes of KV cache and states that a draft needs beside its weights."""

    def derive(self, content: DraftContent, views: Mapping[str, torch.Tensor],
               surroundings: Surroundings, should_cancel: Callable[[], bool]) -> None:
        """Fill the derived tensors; runs on the loader thread when the file has been read.

        :param should_cancel: asked every few milliseconds.
        :raises ReadCancelledError: it said yes.
        """

    def make(self, content: DraftContent, views: Mapping[str, torch.Tensor],
             memory: torch.Tensor, surroundings: Surroundings) -> Draft:
        """Make the draft over a slot's views and memory; nothing is copied.

        :param memory: flat uint8, of at least :meth:`memory_bytes`; shared with the other
            drafts of the slot, which takes turns.
        """


def check_shapes(content: DraftContent, expected: Mapping[str, tuple[int, ...]], *,
                 optional: Mapping[str, tuple[int, ...]] = NONE) -> None:
    """Compare a draft's tensors with those that its architecture needs, or may have.

    :raises ModelFormatError: one is missing, superfluous or of another shape.
    """
    path = content.parts[0].path
    expected = {**expected, **{name: shape for name, shape in optional.items()
                               if name in content.shapes}}
    for name, shape in expected.items():
        if content.shapes.get(name) != shape:
            seen = content.shapes.get(name)
            raise ModelFormatError(f"{path}: tensor '{name}' is "
                                   f'{"missing" if seen is None else list(seen)}; the '
                                   f'architecture needs {list(shape)}')
    for name in content.shapes:
        if name not in expected:
            raise ModelFormatError(f"{path}: tensor '{name}' is of no use to the architecture")
