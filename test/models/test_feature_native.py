# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Packed matrices give the same products, to the rounding of weights and activations."""

import pytest
import torch
from packed_views import packed_views

from memspec_ros.models import native_library
from memspec_ros.models.feature_native import (
    HEAD,
    UNPACKED,
    PackedProjections,
    is_packable,
    packed_matrices,
)
from memspec_ros.models.feature_network import FeatureConfig, dense
from memspec_ros.models.native_pool import shared_pool

CONFIG = FeatureConfig(hidden_size=64, rows=48, width=32, num_heads=2, intermediate=96,
                       window=16)
needs_library = pytest.mark.skipif(not native_library.is_available(),
                                   reason='the native library is not built')


def make_weights():
    generator = torch.Generator().manual_seed(0)
    weights = {name: torch.randn(shape, generator=generator)
               for name, shape in CONFIG.shapes().items()}
    weights[HEAD] = torch.randn(CONFIG.rows, CONFIG.width, generator=generator)
    return weights


def make_projections(weights, memory=None):
    views = packed_views(CONFIG, weights, memory)
    return PackedProjections(packed_matrices(CONFIG, views), shared_pool(1))


@needs_library
@pytest.mark.parametrize('width', [1, 5])
def test_products_are_close_to_the_float_ones(width):
    weights = make_weights()
    projections = make_projections(weights)
    reference = dense(weights)
    for name, weight in weights.items():
        if weight.dim() == 2 and name not in UNPACKED:
            x = torch.randn(width, weight.shape[1])
            expected = reference(name, x)
            error = (projections(name, x) - expected).abs().max()
            assert error < 0.03 * expected.abs().max(), name


@needs_library
def test_a_bias_is_added():
    projections = make_projections(make_weights())
    x, bias = torch.randn(2, CONFIG.width), torch.randn(CONFIG.rows)
    torch.testing.assert_close(projections(HEAD, x, bias), projections(HEAD, x) + bias)


@needs_library
def test_filling_again_replaces_all():
    memory = packed_views(CONFIG, {name: weight * 3.0 for name, weight in make_weights().items()})
    projections = make_projections(make_weights(), memory)
    fresh = make_projections(make_weights())
    x = torch.randn(1, CONFIG.hidden_size)
    assert torch.equal(projections('token_in', x), fresh('token_in', x))


def test_widths_without_kernels_are_not_packed():
    odd = FeatureConfig(hidden_size=64, rows=48, width=36, num_heads=2, intermediate=96)
    assert not is_packable(odd)


def test_nothing_is_packed_without_the_library(monkeypatch):
    monkeypatch.setattr(native_library, 'is_available', lambda: False)
    assert not is_packable(CONFIG)
