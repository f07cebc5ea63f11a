# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Independent drafts in slots: what they need there, and how they are made over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from memspec_ros.boundaries import Draft
from memspec_ros.models.decoder import Decoder
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.draft_content import DraftContent, SlotLayout, slot_layout
from memspec_ros.models.draft_file import OUTPUT_TOKEN_IDS
from memspec_ros.models.draft_kinds import Surroundings, check_shapes
from memspec_ros.models.draft_storage import FLOAT_DTYPES
from memspec_ros.models.independent_decoder import (
    independent_config,
    independent_decoder,
    independent_shapes,
)
from memspec_ros.models.independent_draft import DraftDecoder, IndependentDraft
from memspec_ros.models.independent_forms import PROJECTION, matrix_forms
from memspec_ros.models.independent_native import (
    NativeDraftDecoder,
    native_kv_bytes,
    native_kv_cache,
    native_weights,
)
from memspec_ros.models.independent_quantised import quantised_decoder
from memspec_ros.models.kv_cache import KVCache
from memspec_ros.models.pass_graphs import GraphedDraftDecoder, shared_graph_maker
from memspec_ros.models.slot_forms import FormedMatrix, NativeForm


class IndependentKind:
    """Small decoders of their own."""

    def check(self, content: DraftContent, surroundings: Surroundings) -> None:
        """Compare names and shapes with what the architecture needs."""
        rows = content.shapes.get(OUTPUT_TOKEN_IDS, (None,))[0]
        borrows = self.needs_embedding(content)
        expected = independent_shapes(
            independent_config(content.architecture), head_rows=rows,
            target_hidden_size=surroundings.hidden_size if borrows else None)
        check_shapes(content, expected)

    def needs_embedding(self, content: DraftContent) -> bool:
        """Only where it projects the target's embeddings to its own width."""
        return PROJECTION in content.shapes

    def layout(self, content: DraftContent, surroundings: Surroundings) -> SlotLayout:
        """Lay the file's tensors out, matrices in the bits that the settings ask for."""
        config = independent_config(content.architecture)
        return slot_layout(content, surroundings.form,
                           matrix_forms=matrix_forms(content, config, surroundings))

    def memory_bytes(self, content: DraftContent, surroundings: Surroundings) -> int:
        """Two KV caches that take turns (draft_window.py)."""
        config, context = independent_config(content.architecture), surroundings.context_tokens
        if _runs_native(self.layout(content, surroundings)):
            return 2 * native_kv_bytes(config, context)
        itemsize = FLOAT_DTYPES[surroundings.form].itemsize
        return 2 * context * config.kv_bytes_per_token(itemsize)

    def derive(self, content: DraftContent, views: Mapping[str, torch.Tensor],
               surroundings: Surroundings, should_cancel: Callable[[], bool]) -> None:
        """Do nothing."""

    def make(self, content: DraftContent, views: Mapping[str, torch.Tensor],
             memory: torch.Tensor, surroundings: Surroundings) -> Draft:
        """Make the draft."""
        config = independent_config(content.architecture)
        layout = self.layout(content, surroundings)
        half = self.memory_bytes(content, surroundings) // 2
        halves = (memory[:half], memory[half:2 * half])
        output_token_ids = views.get(OUTPUT_TOKEN_IDS)
        context = surroundings.context_tokens
        if _runs_native(layout):
            first, second = (native_kv_cache(config, part, context) for part in halves)
            return IndependentDraft(
                content.name, _native_decoder(config, layout, views, surroundings),
                kv_caches=(first, second), context_tokens=context,
                output_token_ids=output_token_ids)
        dtype, device = FLOAT_DTYPES[surroundings.form], surroundings.device
        one, other = (KVCache(config, context_tokens=context, dtype=dtype, device=device,
                              memory=part) for part in halves)
        decoder: DraftDecoder = _decoder(config, layout, views, surroundings)
        if isinstance(decoder, Decoder) and device == 'cuda':
            num_rows = surroundings.vocab_size if output_token_ids is None else None
            decoder = GraphedDraftDecoder(decoder, (one, other), num_rows=num_rows,
                                          maker=shared_graph_maker())
        return IndependentDraft(content.name, decoder, kv_caches=(one, other),
                                context_tokens=context, output_token_ids=output_token_ids)


def _runs_native(layout: SlotLayout) -> bool:
    return any(isinstance(tensor.form, NativeForm) for tensor in layout.tensors.values())


def _native_decoder(config: DecoderConfig, layout: SlotLayout, views: Mapping[str, torch.Tensor],
                    surroundings: Surroundings) -> NativeDraftDecoder:
    forms = {name: tensor.form for name, tensor in layout.tensors.items()
             if isinstance(tensor.form, NativeForm)}
    weights = native_weights(config, views, forms, num_tokens=surroundings.vocab_size)
    return NativeDraftDecoder(config, weights, context_tokens=surroundings.context_tokens,
                              num_threads=surroundings.num_threads)


def _decoder(config: DecoderConfig, layout: SlotLayout, views: Mapping[str, torch.Tensor],
             surroundings: Surroundings) -> DraftDecoder:
    context = surroundings.context_tokens
    formed = {name: FormedMatrix(form=tensor.form, shape=tensor.shape, memory=views[name])
              for name, tensor in layout.tensors.items() if tensor.form is not None}
    if formed:
        return quantised_decoder(config, {**views, **formed}, form=surroundings.form,
                                 context_tokens=context)
    return independent_decoder(config, views, form=surroundings.form, context_tokens=context,
                               target_embedding=surroundings.embedding)
