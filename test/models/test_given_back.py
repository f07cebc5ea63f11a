# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Memory that is given back: the machine has it, the address stays, and it can be used again."""

import pytest
import torch

from memspec_ros.models.given_back import give_back
from memspec_ros.runtime.memory import rss_bytes

NUM_BYTES = 64 << 20


def test_the_pages_go_and_the_address_stays():
    memory = torch.full((NUM_BYTES,), 7, dtype=torch.uint8)
    view, address, before = memory[100:200], memory.data_ptr(), rss_bytes()
    assert give_back(memory) >= NUM_BYTES - 2 * 4096
    assert before - rss_bytes() > NUM_BYTES // 2
    assert memory.data_ptr() == address
    memory.fill_(9)
    assert view.tolist() == [9] * 100


@pytest.mark.parametrize('num_bytes', [0, 10])
def test_less_than_a_page_is_left_alone(num_bytes):
    memory = torch.full((num_bytes,), 7, dtype=torch.uint8)
    assert give_back(memory) == 0
    assert memory.tolist() == [7] * num_bytes


def test_what_is_not_one_block_is_left_alone():
    memory = torch.ones(NUM_BYTES // 4, 2, dtype=torch.uint8)[:, 0]
    assert give_back(memory) == 0
    assert bool(memory.all())
