# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in the precision that the settings ask for."""

from __future__ import annotations

import pytest
import torch

from memspec_ros.models.checkpoint_forms import CheckpointInForm, weight_bytes
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, tiny_config


def test_forms_of_a_checkpoint() -> None:
    checkpoint = RandomCheckpoint(tiny_config(tied_head=False))
    forms = {dtype: CheckpointInForm(checkpoint, dtype) for dtype in ('fp32', 'bf16', 'int4')}
    name, table = 'model.layers.0.mlp.up_proj.weight', 'lm_head.weight'
    assert forms['fp32'].matrix(name).data.dtype is torch.float32
    assert forms['bf16'].matrix(name).data.dtype is torch.bfloat16
    assert (forms['int4'].matrix(name).num_bits, forms['int4'].matrix(table).num_bits) == (4, 8)
    once_more = CheckpointInForm(forms['int4'], 'int4')
    assert torch.equal(once_more.matrix(name).values(), forms['int4'].matrix(name).values())
    assert torch.equal(forms['int4'].vector('model.norm.weight'),
                       checkpoint.vector('model.norm.weight'))


@pytest.mark.parametrize(('dtype', 'bits'), [('fp32', 32), ('bf16', 16), ('int4', 5)])
def test_bytes_of_a_form(dtype: str, bits: int) -> None:
    config = tiny_config(tied_head=False)
    table = config.vocab_size * config.hidden_size
    assert weight_bytes(config, dtype, table_bits=8.0) == \
        (config.num_weights - 2 * table) * bits // 8 + 2 * table
