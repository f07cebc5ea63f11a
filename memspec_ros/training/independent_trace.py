# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""An independent draft outside of a slot, for tracing."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from memspec_ros.models.draft_file import OUTPUT_TOKEN_IDS, DraftHeader
from memspec_ros.models.independent_decoder import independent_config, independent_decoder
from memspec_ros.models.independent_draft import IndependentDraft
from memspec_ros.training.trained_target import TrainedTarget

CONTEXT_TOKENS = 256


def independent_draft(name: str, header: DraftHeader, weights: Mapping[str, torch.Tensor],
                      target: TrainedTarget) -> IndependentDraft:
    """Make an independent draft in fp32 over weights that lie in no slot."""
    decoder = independent_decoder(
        independent_config(header.card.architecture), weights, form='fp32',
        context_tokens=CONTEXT_TOKENS, target_embedding=target.weights.embedding)
    first, second = (decoder.make_kv_cache(context_tokens=CONTEXT_TOKENS) for _ in range(2))
    return IndependentDraft(name, decoder, kv_caches=(first, second),
                            context_tokens=CONTEXT_TOKENS,
                            output_token_ids=weights.get(OUTPUT_TOKEN_IDS))
