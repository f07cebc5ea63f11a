# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Packed matrices: exact weights, products within the stated bound, on every instruction set."""

from __future__ import annotations

import pytest
import torch
from native_checkpoints import random_grouped

from memspec_ros.errors import BudgetError, ModelError, UnsupportedModelError
from memspec_ros.models import native_library
from memspec_ros.models.matrices import DenseMatrix
from memspec_ros.models.native_matrix import FixedStorage, GrowingStorage, pack
from memspec_ros.models.native_pool import NativePool, shared_pool

pytestmark = pytest.mark.skipif(not native_library.is_available(),
                                reason='the native library is not built')


def select(name: str) -> bool:
    return native_library.load().memspec_select_instruction_set(name.encode()) == 0


def runnable_sets() -> list[str]:
    """Return the instruction sets of this machine, leaving the best one selected."""
    if not native_library.is_available():
        return []
    best = native_library.load().memspec_instruction_set().decode()
    names = ('avx512vnni', 'avxvnni', 'avx2', 'neon_dotprod', 'plain')
    runnable = [name for name in names if select(name)]
    assert select(best)
    return runnable


FORMS = {
    'q4_1': {'num_bits': 4, 'group': 32, 'minima': 'stored'},
    'q4_0': {'num_bits': 4, 'group': 32, 'minima': 'centred'},
    'q4_no_minima': {'num_bits': 4, 'group': 32, 'minima': 'none'},
    'q8_0': {'num_bits': 8, 'group': 32, 'minima': 'none'},
    'gptq_64': {'num_bits': 4, 'group': 64, 'minima': 'stored', 'halves': False},
    'gptq_128': {'num_bits': 4, 'group': 128, 'minima': 'centred'},
    'q8_float_scales': {'num_bits': 8, 'group': 32, 'minima': 'none', 'halves': False},
}


@pytest.fixture(params=runnable_sets())
def instruction_set(request):
    best = native_library.load().memspec_instruction_set().decode()
    assert select(request.param)
    yield request.param
    assert select(best)


def make(form: str, rows: int = 48, columns: int = 256):
    torch.manual_seed(sum(map(ord, form)))
    if form in FORMS:
        return random_grouped(rows, columns, **FORMS[form])
    dtype = {'fp32': torch.float32, 'fp16': torch.float16, 'bf16': torch.bfloat16}[form]
    return DenseMatrix(data=torch.randn(rows, columns).to(dtype))


@pytest.mark.parametrize('rows', [16, 37])
@pytest.mark.parametrize('form', [*FORMS, 'fp32', 'fp16', 'bf16'])
def test_packed_values_are_exact(form, rows):
    matrix = make(form, rows)
    assert torch.equal(pack(matrix, GrowingStorage()).values(), matrix.values())


@pytest.mark.parametrize('width', [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize('form', [*FORMS, 'fp32', 'fp16', 'bf16'])
def test_product_is_within_the_bound(instruction_set, form, width):
    matrix = make(form, rows=37)
    inputs = torch.randn(width, 256) * torch.logspace(-2, 1, 256)
    bias = torch.randn(37)
    outputs = shared_pool(2).linear(pack(matrix, GrowingStorage()), inputs, bias)
    values = matrix.values().double()
    error = (outputs - (inputs.double() @ values.T + bias)).abs()
    bound = 1e-5 * (inputs.double().abs() @ values.abs().T + bias.abs())
    if form in FORMS:
        largest = inputs.view(width, -1, 32).abs().amax(-1).double()
        bound += largest / 254.0 @ values.abs().view(37, -1, 32).sum(-1).T
    assert (error <= bound).all(), f'{instruction_set}: {(error / bound).max()}'


@pytest.mark.parametrize('form', [*FORMS, 'fp32', 'fp16', 'bf16'])
def test_extreme_codes_do_not_overflow(instruction_set, form):
    matrix = make(form)
    if form in FORMS:
        matrix.codes.fill_(-128 if FORMS[form]['num_bits'] == 8 else 15)
    signs = torch.tensor([1.0, -1.0]).repeat(128)
    for inputs in (torch.ones(4, 256), -torch.ones(4, 256), signs.expand(4, 256)):
        outputs = shared_pool(1).linear(pack(matrix, GrowingStorage()), inputs)
        expected = inputs @ matrix.values().T
        size = inputs.abs() @ matrix.values().abs().T
        assert ((outputs - expected).abs() <= 1e-5 * size).all(), instruction_set


@pytest.mark.parametrize('form', [*FORMS, 'fp32', 'fp16', 'bf16'])
def test_rows_do_not_depend_on_each_other(instruction_set, form):
    packed = pack(make(form), GrowingStorage())
    inputs = torch.randn(11, 256)
    together = shared_pool(2).linear(packed, inputs)
    for row in range(11):
        alone = shared_pool(1).linear(packed, inputs[row:row + 1])
        assert torch.equal(together[row:row + 1], alone), instruction_set


def test_zero_inputs_give_zero():
    packed = pack(make('q4_1'), GrowingStorage())
    assert torch.equal(shared_pool(1).linear(packed, torch.zeros(3, 256)), torch.zeros(3, 48))


def test_fixed_storage_runs_out_with_the_numbers():
    storage = FixedStorage(torch.zeros(3 * 2560, dtype=torch.uint8))
    pack(make('q4_1', rows=32), storage)  # a panel of 256 columns takes 2560 bytes
    with pytest.raises(BudgetError, match='need 5120 more bytes, 2560 are left'):
        pack(make('q4_1', rows=32), storage)


@pytest.mark.parametrize(('columns', 'group'), [(48, 16), (96, 48)])
def test_groups_without_kernels_are_refused(columns, group):
    matrix = random_grouped(16, columns, num_bits=4, group=group, minima='stored')
    with pytest.raises(UnsupportedModelError, match=f'16 x {columns} in groups of {group}'):
        pack(matrix, GrowingStorage())


def test_inputs_of_a_wrong_shape_are_refused():
    packed = pack(make('q4_1'), GrowingStorage())
    with pytest.raises(ModelError, match=r'48 x 256 are \[2, 100\]'):
        shared_pool(1).linear(packed, torch.zeros(2, 100))


@pytest.mark.parametrize('num_threads', [0, -1, 65])
def test_a_pool_of_a_wrong_size_is_refused(num_threads):
    with pytest.raises(ModelError, match=f'pool of {num_threads} threads'):
        NativePool(num_threads)
