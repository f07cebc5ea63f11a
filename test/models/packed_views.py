# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A feature-conditioned draft's matrices rounded and packed, as a file has them."""

import torch

from memspec_ros.models.draft_storage import quantise_int8
from memspec_ros.models.feature_native import HEAD, HEAD_GROUP, packed_forms, packed_shapes
from memspec_ros.models.matrices import GroupedMatrix


def packed_views(config, weights, memory=None):
    """Uint8 views by name, on cache lines of their own; ``memory`` of an earlier call is reused.
    """
    shapes, forms = packed_shapes(config), packed_forms(config)
    views = memory or {name: aligned(form.num_bytes(shapes[name]))
                       for name, form in forms.items()}
    for name, form in forms.items():
        stored = quantise_int8(weights[name], HEAD_GROUP if name == HEAD else 0)
        form.write(views[name], shapes[name], 0, GroupedMatrix(
            codes=stored.values, scales=stored.scale.view(len(stored.scale), -1), minima=None,
            num_bits=8))
    return views


def aligned(num_bytes):
    """Zeroed memory on a cache line's border."""
    memory = torch.zeros(num_bytes + 64, dtype=torch.uint8)
    start = -memory.data_ptr() % 64
    return memory[start:start + num_bytes]
