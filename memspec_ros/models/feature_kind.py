# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Feature-conditioned drafts in slots: their tensors, and the borrowed head made at each load."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from memspec_ros.boundaries import Draft
from memspec_ros.errors import ModelFormatError
from memspec_ros.models.draft_content import DraftContent, SlotLayout, slot_layout
from memspec_ros.models.draft_file import OUTPUT_TOKEN_IDS
from memspec_ros.models.draft_kinds import Surroundings, check_shapes
from memspec_ros.models.feature_draft import FeatureDraft, FeatureEntries
from memspec_ros.models.feature_network import FeatureConfig

HEAD = 'head'


class FeatureKind:
    """Drafts that see the target's hidden states and borrow its embedding as input and head."""

    def check(self, content: DraftContent, surroundings: Surroundings) -> None:
        """Compare names, shapes and the target's width with what the architecture needs."""
        config = FeatureConfig.from_architecture(content.architecture)
        if config.hidden_size != surroundings.hidden_size:
            raise ModelFormatError(
                f'{content.parts[0].path}: made for a target with {config.hidden_size} hidden '
                f'channels; this one has {surroundings.hidden_size}')
        check_shapes(content, {OUTPUT_TOKEN_IDS: (config.rows,), **config.shapes()})

    def layout(self, content: DraftContent, surroundings: Surroundings) -> SlotLayout:
        """Lay the file's tensors out, and the head computed from them."""
        config = FeatureConfig.from_architecture(content.architecture)
        return slot_layout(content, surroundings.form, {HEAD: (config.rows, config.width)})

    def memory_bytes(self, content: DraftContent, surroundings: Surroundings) -> int:
        """Entries of the attention window, in float32."""
        del surroundings
        return 4 * math.prod(_memory_shape(FeatureConfig.from_architecture(content.architecture)))

    def derive(self, views: Mapping[str, torch.Tensor], surroundings: Surroundings) -> None:
        """Multiply the borrowed rows with ``out``, into the slot."""
        if surroundings.embedding is None:
            raise ModelFormatError("a feature-conditioned draft needs its target's embedding")
        rows = surroundings.embedding[views[OUTPUT_TOKEN_IDS].long()].to(views['out'].dtype)
        torch.mm(rows, views['out'], out=views[HEAD])

    def make(self, content: DraftContent, views: Mapping[str, torch.Tensor],
             memory: torch.Tensor, surroundings: Surroundings) -> Draft:
        """Make the draft."""
        if surroundings.embedding is None:
            raise ModelFormatError("a feature-conditioned draft needs its target's embedding")
        config = FeatureConfig.from_architecture(content.architecture)
        shape = _memory_shape(config)
        entries = memory[:4 * math.prod(shape)].view(torch.float32).view(shape)
        return FeatureDraft(content.name, config, views, memory=entries,
                            row_tokens=views[OUTPUT_TOKEN_IDS], embedding=surroundings.embedding)


def _memory_shape(config: FeatureConfig) -> tuple[int, int, int]:
    return 2, FeatureEntries.capacity(config), config.width
