# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Independent drafts in slots: what they need there, and how they are made over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from memspec_ros.boundaries import Draft
from memspec_ros.models.draft_content import DraftContent, SlotLayout, slot_layout
from memspec_ros.models.draft_file import OUTPUT_TOKEN_IDS
from memspec_ros.models.draft_kinds import Surroundings, check_shapes
from memspec_ros.models.draft_storage import FLOAT_DTYPES
from memspec_ros.models.independent_decoder import (
    independent_config,
    independent_decoder,
    independent_shapes,
)
from memspec_ros.models.independent_draft import IndependentDraft
from memspec_ros.models.kv_cache import KVCache


class IndependentKind:
    """Small decoders of their own."""

    def check(self, content: DraftContent, surroundings: Surroundings) -> None:
        """Compare names and shapes with what the architecture needs."""
        rows = content.shapes.get(OUTPUT_TOKEN_IDS, (None,))[0]
        borrows = 'embedding_projection' in content.shapes
        expected = independent_shapes(
            independent_config(content.architecture), head_rows=rows,
            target_hidden_size=surroundings.hidden_size if borrows else None)
        check_shapes(content, expected)

    def layout(self, content: DraftContent, surroundings: Surroundings) -> SlotLayout:
        """Lay the file's tensors out."""
        return slot_layout(content, surroundings.form)

    def memory_bytes(self, content: DraftContent, surroundings: Surroundings) -> int:
        """Two KV caches that take turns (draft_window.py)."""
        config = independent_config(content.architecture)
        itemsize = FLOAT_DTYPES[surroundings.form].itemsize
        return 2 * surroundings.context_tokens * config.kv_bytes_per_token(itemsize)

    def derive(self, content: DraftContent, views: Mapping[str, torch.Tensor],
               surroundings: Surroundings, should_cancel: Callable[[], bool]) -> None:
        """Do nothing."""

    def make(self, content: DraftContent, views: Mapping[str, torch.Tensor],
             memory: torch.Tensor, surroundings: Surroundings) -> Draft:
        """Make the draft."""
        context_tokens = surroundings.context_tokens
        decoder = independent_decoder(
            independent_config(content.architecture), views, form=surroundings.form,
            context_tokens=context_tokens, target_embedding=surroundings.embedding)
        half = self.memory_bytes(content, surroundings) // 2
        first, second = (
            KVCache(decoder.config, context_tokens=context_tokens, dtype=decoder.dtype,
                    device=surroundings.device, memory=part)
            for part in (memory[:half], memory[half:]))
        return IndependentDraft(content.name, decoder, kv_caches=(first, second),
                                context_tokens=context_tokens,
                                output_token_ids=views.get(OUTPUT_TOKEN_IDS))
