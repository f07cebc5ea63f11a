# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The KV cache: its cursor, its rows and its one allocation."""

from __future__ import annotations

import pytest
import torch

from memspec_ros.errors import ModelError
from memspec_ros.models.kv_cache import KVCache
from memspec_ros.testing.random_checkpoint import tiny_config

CONFIG = tiny_config()


def entries(batch: int, width: int, value: float) -> torch.Tensor:
    return torch.full((batch, width, CONFIG.num_kv_heads, CONFIG.head_dim), value)


def append(kv_cache: KVCache, width: int, value: float) -> torch.Tensor:
    positions = kv_cache.positions(width)
    for layer in range(CONFIG.num_layers):
        keys, _ = kv_cache.write(layer, entries(kv_cache.batch, width, value),
                                 entries(kv_cache.batch, width, -value), positions)
    kv_cache.advance(width)
    return keys


def test_the_live_part_is_a_view() -> None:
    kv_cache = KVCache(CONFIG, context_tokens=16)
    append(kv_cache, 3, 1.0)
    keys = append(kv_cache, 2, 2.0)
    assert keys.shape == (1, 2, 5, 16)
    assert keys[0, 0, :, 0].tolist() == [1, 1, 1, 2, 2]
    assert keys.data_ptr() == kv_cache.keys[-1].data_ptr()
    assert kv_cache.values[-1, 0, 0, :5, 0].tolist() == [-1, -1, -1, -2, -2]


def test_rollback_touches_no_memory() -> None:
    kv_cache = KVCache(CONFIG, context_tokens=16)
    append(kv_cache, 6, 1.0)
    before = kv_cache.keys.clone()
    kv_cache.rollback(2)
    assert torch.equal(kv_cache.keys, before)
    assert kv_cache.positions(3).tolist() == [[2, 3, 4]]
    assert append(kv_cache, 1, 5.0)[0, 0, :, 0].tolist() == [1, 1, 5]


def test_bytes() -> None:
    kv_cache = KVCache(CONFIG, context_tokens=16, batch=3, dtype=torch.bfloat16)
    assert kv_cache.num_bytes == 3 * 16 * CONFIG.kv_bytes_per_token(2)


@pytest.mark.parametrize('length', [-1, 7])
def test_rollback_beyond_the_cursor(length: int) -> None:
    kv_cache = KVCache(CONFIG, context_tokens=16)
    append(kv_cache, 6, 1.0)
    with pytest.raises(ModelError, match=f'back to {length}: it holds 6 tokens'):
        kv_cache.rollback(length)


def test_overflow() -> None:
    kv_cache = KVCache(CONFIG, context_tokens=16)
    append(kv_cache, 10, 1.0)
    kv_cache.check_room(6)
    with pytest.raises(ModelError, match='10 tokens in the KV cache and 7 more pass its 16'):
        kv_cache.check_room(7)


def test_rows_have_their_own_cursors() -> None:
    kv_cache = KVCache(CONFIG, context_tokens=16, batch=2)
    append(kv_cache, 6, 1.0)
    kv_cache.rollback_rows(torch.tensor([2, 5]))
    assert kv_cache.length == 5
    assert kv_cache.positions(2).tolist() == [[2, 3], [5, 6]]
    keys = append(kv_cache, 2, 7.0)
    assert keys[0, 0, :, 0].tolist() == [1, 1, 7, 7, 1, 1, 0]
    assert keys[1, 0, :, 0].tolist() == [1, 1, 1, 1, 1, 7, 7]
    assert kv_cache.row_lengths.tolist() == [4, 7]
    kv_cache.rollback(5)
    assert kv_cache.row_lengths.tolist() == [4, 5]


def test_rows_beyond_their_cursors() -> None:
    kv_cache = KVCache(CONFIG, context_tokens=16, batch=2)
    append(kv_cache, 6, 1.0)
    kv_cache.rollback_rows(torch.tensor([2, 5]))
    with pytest.raises(ModelError, match=r'rows back to \[3, 5\]: they hold \[2, 5\]'):
        kv_cache.rollback_rows(torch.tensor([3, 5]))
