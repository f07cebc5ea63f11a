# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Feature-conditioned drafts in slots: their tensors, and the borrowed head made at each load."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch

from memspec_ros.boundaries import Draft
from memspec_ros.errors import ModelFormatError
from memspec_ros.models.draft_content import DraftContent, SlotLayout, slot_layout
from memspec_ros.models.draft_file import OUTPUT_TOKEN_IDS
from memspec_ros.models.draft_kinds import Surroundings, check_shapes
from memspec_ros.models.draft_storage import FLOAT_DTYPES
from memspec_ros.models.feature_draft import FeatureDraft
from memspec_ros.models.feature_head import HEAD, head_chunks
from memspec_ros.models.feature_native import (
    PackedProjections,
    is_packable,
    packed_forms,
    packed_matrices,
    runs_native,
)
from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.models.feature_slots import FeatureEntries, FeatureSlots, TorchSlots
from memspec_ros.models.matrices import DenseMatrix
from memspec_ros.models.native_pool import shared_pool
from memspec_ros.models.native_slots import NativeSlots

# A step takes some 0.1 ms: a second thread would save less of it than waking and waiting costs
# where the other core has something else to do, and the loader wants one.
NUM_THREADS = 1


class FeatureKind:
    """Drafts that see the target's hidden states and borrow its embedding as input and head."""

    def check(self, content: DraftContent, surroundings: Surroundings) -> None:
        """Compare names, shapes and the target's width with what the architecture needs."""
        config = FeatureConfig.from_architecture(content.architecture)
        if config.hidden_size != surroundings.hidden_size:
            raise ModelFormatError(
                f'{content.parts[0].path}: made for a target with {config.hidden_size} hidden '
                f'channels; this one has {surroundings.hidden_size}')
        check_shapes(content, {OUTPUT_TOKEN_IDS: (config.rows,), **config.shapes()},
                     optional={HEAD: (config.rows, config.width)})

    def needs_embedding(self, content: DraftContent) -> bool:
        """Always: inputs and head are made of it."""
        del content
        return True

    def layout(self, content: DraftContent, surroundings: Surroundings) -> SlotLayout:
        """Lay the file's tensors out, and the head, which a file of floats does not have.

        Packed matrices lie there in the very codes of a file in 8 bits. ``out`` is only there
        where a head is to be made of it.
        """
        config = FeatureConfig.from_architecture(content.architecture)
        head = {HEAD: (config.rows, config.width)}
        if not _is_packed(config, surroundings):
            return slot_layout(content, surroundings.form, head)
        return slot_layout(content, surroundings.form, head, packed_forms(config),
                           without=('out',) if HEAD in content.shapes else ())

    def memory_bytes(self, content: DraftContent, surroundings: Surroundings) -> int:
        """Entries of the attention window."""
        config = FeatureConfig.from_architecture(content.architecture)
        return FLOAT_DTYPES[surroundings.form].itemsize * math.prod(_memory_shape(config))

    def derive(self, content: DraftContent, views: Mapping[str, torch.Tensor],
               surroundings: Surroundings, should_cancel: Callable[[], bool]) -> None:
        """Make the head, where the file's will not do: floats get their own."""
        if surroundings.embedding is None:
            raise ModelFormatError("a feature-conditioned draft needs its target's embedding")
        config = FeatureConfig.from_architecture(content.architecture)
        is_packed = _is_packed(config, surroundings)
        if is_packed and HEAD in content.shapes:
            return
        form, shape = packed_forms(config)[HEAD], (config.rows, config.width)
        for first, rows in head_chunks(views[OUTPUT_TOKEN_IDS], views['out'],
                                       surroundings.embedding, should_cancel):
            if is_packed:
                form.write(views[HEAD], shape, first, DenseMatrix(data=rows))
            else:
                views[HEAD][first:first + len(rows)] = rows

    def make(self, content: DraftContent, views: Mapping[str, torch.Tensor],
             memory: torch.Tensor, surroundings: Surroundings) -> Draft:
        """Make the draft."""
        if surroundings.embedding is None:
            raise ModelFormatError("a feature-conditioned draft needs its target's embedding")
        config = FeatureConfig.from_architecture(content.architecture)
        shape = _memory_shape(config)
        num_bytes = self.memory_bytes(content, surroundings)
        entries = memory[:num_bytes].view(FLOAT_DTYPES[surroundings.form]).view(shape)
        slots: FeatureSlots
        matrices = packed_matrices(config, views) if _is_packed(config, surroundings) else None
        if matrices is not None and runs_native(config):
            slots = NativeSlots(
                config, matrices, views, row_tokens=views[OUTPUT_TOKEN_IDS],
                embedding=surroundings.embedding, memory=entries, pool=shared_pool(NUM_THREADS))
        else:
            project = None if matrices is None else \
                PackedProjections(matrices, shared_pool(NUM_THREADS))
            slots = TorchSlots(
                config, views, row_tokens=views[OUTPUT_TOKEN_IDS], memory=entries,
                embedding=surroundings.embedding, project=project)
        return FeatureDraft(content.name, config, slots)


def _is_packed(config: FeatureConfig, surroundings: Surroundings) -> bool:
    return surroundings.device == 'cpu' and surroundings.form == 'fp32' and is_packable(config)


def _memory_shape(config: FeatureConfig) -> tuple[int, int, int]:
    return 2, FeatureEntries.capacity(config), config.width
