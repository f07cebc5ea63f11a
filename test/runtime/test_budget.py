# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The memory sum: item by item, with the largest K that fits, in words and as JSON."""

import json

import pytest

from memspec_ros.errors import BudgetError
from memspec_ros.runtime.budget import Needs, make_budget
from memspec_ros.runtime.memory import Available

MB = 1_000_000
NEEDS = Needs(target_weights_bytes=500 * MB, target_kv_bytes=50 * MB, workspace_bytes=20 * MB,
              slot_bytes=90 * MB, draft_memory_bytes=10 * MB, shared_bytes=5 * MB, num_drafts=5,
              predictor_bytes=25 * MB, headroom_bytes=100 * MB)


def budget_of(host_mb, capacity=2, draft_budget_mb=0, device_mb=None, needs=NEEDS):
    device_bytes = None if device_mb is None else device_mb * MB
    return make_budget(needs, Available(host_bytes=host_mb * MB, device_bytes=device_bytes),
                       cache_capacity=capacity, draft_budget_bytes=draft_budget_mb * MB)


@pytest.mark.parametrize(('host_mb', 'largest'), [
    (699, -1), (700, 0), (799, 0), (800, 1), (899, 1), (900, 2), (1200, 5), (5000, 5)])
def test_the_largest_capacity(host_mb, largest):
    assert budget_of(host_mb).largest_capacity == largest
    assert budget_of(host_mb).fits == (largest >= 2)


def test_the_sum_is_that_of_its_items():
    budget = budget_of(1000, capacity=3)
    assert budget.total_bytes == (500 + 50 + 20 + 270 + 30 + 5 + 25 + 100) * MB
    assert {item.name: item.num_bytes // MB for item in budget.items}['3 x draft slot'] == 270


def test_the_error_shows_every_item_and_the_largest_capacity():
    with pytest.raises(BudgetError) as error:
        budget_of(850).check()
    assert str(error.value) == '\n'.join([
        'K=2 does not fit into memory:',
        '  target weights                 500.0 MB',
        '  target KV cache                 50.0 MB',
        '  2 x draft slot                 180.0 MB',
        '  2 x draft KV cache              20.0 MB',
        '  shared by drafts                 5.0 MB',
        '  predictor                       25.0 MB',
        '  workspace                       20.0 MB',
        '  headroom                       100.0 MB',
        '  sum                            900.0 MB',
        '  available (MemAvailable)       850.0 MB',
        'the largest K that fits is 1 (runtime.cache_capacity)'])


@pytest.mark.parametrize(('host_mb', 'draft_budget_mb', 'message'), [
    (600, 0, 'not even the target alone fits: 100.0 MB are missing'),
    (750, 0, r'the target fits, but no draft does: serve without a pool'),
    (5000, 100, r'the largest K that fits within runtime\.draft_budget_mb 100 is 1'),
    (5000, 50, r'no draft does within runtime\.draft_budget_mb 50'),
])
def test_what_else_may_not_fit(host_mb, draft_budget_mb, message):
    with pytest.raises(BudgetError, match=message):
        budget_of(host_mb, draft_budget_mb=draft_budget_mb).check()


def test_what_fits_passes_and_says_so():
    budget = budget_of(1000)
    budget.check()
    assert budget.describe().startswith('K=2 fits into memory:')
    assert budget.describe().endswith('the largest K that fits is 3 (runtime.cache_capacity)')


def test_more_slots_than_drafts_are_not_counted():
    budget = budget_of(1200, capacity=8)
    budget.check()
    assert budget.num_slots == 5
    assert budget.total_bytes == 1200 * MB


def test_without_drafts_only_the_target_counts():
    needs = Needs(target_weights_bytes=500 * MB, target_kv_bytes=0)
    budget = budget_of(500, needs=needs)
    budget.check()
    assert budget.describe().endswith('there are no drafts to keep in memory')
    with pytest.raises(BudgetError, match='not even the target'):
        budget_of(499, needs=needs).check()


def test_a_gpu_with_memory_of_its_own_must_hold_it():
    assert budget_of(5000, device_mb=850).largest_capacity == 1
    assert 'available (GPU)' in budget_of(5000, device_mb=850).describe()


def test_it_can_be_written_as_json():
    document = json.loads(json.dumps(budget_of(850).as_dict()))
    assert document['sum_bytes'] == sum(document['items'].values()) == 900 * MB
    assert (document['largest_k'], document['fits']) == (1, False)
    assert document['available_bytes'] == 850 * MB
