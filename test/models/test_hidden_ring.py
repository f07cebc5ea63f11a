# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ring of hidden states, against a list that forgets nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memspec_ros.errors import ModelError
from memspec_ros.models.hidden_ring import MIN_POSITIONS, HiddenRing

STEPS = st.lists(st.tuples(st.integers(1, 700), st.integers(0, 900)), max_size=12)


def rows(start: int, count: int) -> torch.Tensor:
    return torch.arange(start, start + count, dtype=torch.float32)[:, None].repeat(1, 2)


@settings(max_examples=40, deadline=None)
@given(context_tokens=st.integers(1, 4000), steps=STEPS)
def test_keeps_the_newest_states(context_tokens: int, steps: list[tuple[int, int]]) -> None:
    ring = HiddenRing(context_tokens=context_tokens, hidden_size=2, dtype=torch.float32)
    stamp, history = 0, []
    for width, back in steps:
        width = min(width, context_tokens - len(history))
        if width:
            ring.append(rows(stamp, width))
            history += range(stamp, stamp + width)
            stamp += width
        length = max(0, len(history) - back)
        oldest = ring.first
        assert ring.stop == len(history)
        assert ring.view(ring.first, ring.stop)[:, 0].tolist() == history[ring.first:]
        ring.rollback(length)
        del history[length:]
        assert ring.first == min(oldest, length)


def test_always_has_the_last_positions() -> None:
    ring = HiddenRing(context_tokens=10_000, hidden_size=2, dtype=torch.float32)
    for start in range(0, 9000, 90):
        ring.append(rows(start, 90))
        assert ring.stop - ring.first >= min(MIN_POSITIONS, ring.stop)


def test_views_share_the_buffer() -> None:
    ring = HiddenRing(context_tokens=64, hidden_size=2, dtype=torch.float32)
    ring.append(rows(0, 10))
    assert ring.view(2, 5).data_ptr() == ring.view(0, 5)[2:].data_ptr()
    assert ring.num_bytes == 64 * 2 * 4


def test_what_is_not_kept_is_refused() -> None:
    ring = HiddenRing(context_tokens=64, hidden_size=2, dtype=torch.float32)
    ring.append(rows(0, 10))
    with pytest.raises(ModelError, match='positions 8 to 11 were asked for; 0 to 10 are kept'):
        ring.view(8, 11)
