# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Draft files: what is written is read again, in every storage, and damage is noticed."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import save_file

from memspec_ros.errors import DataError, ModelFormatError, ModelNotFoundError
from memspec_ros.models.draft_file import (
    CARD_KEY,
    DraftCard,
    read_draft_header,
    read_draft_weights,
    write_draft_file,
)


def make_card(**changes):
    return DraftCard(**{'kind': 'independent', 'domain': 'code',
                        'architecture': {'hidden_size': 64}, 'tokenizer_checksum': 'ab' * 32,
                        'training': {'steps': 3}, **changes})


def make_weights():
    generator = torch.Generator().manual_seed(1)
    return {'layers.0.qkv': torch.randn(24, 64, generator=generator),
            'norm': torch.randn(64, generator=generator),
            'odd': torch.randn(3, 10, generator=generator)}


@pytest.mark.parametrize(('storage', 'bound'), [
    ('fp32', 0.0), ('fp16', 1e-3), ('bf16', 1e-2), ('int8', 2e-2), ('int4', 0.25)])
def test_round_trip(tmp_path, storage, bound):
    path, weights = tmp_path / 'd.safetensors', make_weights()
    ids = torch.tensor([3, 5, 9])
    write_draft_file(path, make_card(storage=storage), weights, ids)
    header, read = read_draft_weights(path)
    assert header.card.training == {'steps': 3}
    assert torch.equal(read.pop('output_token_ids'), ids.int())
    assert header.shapes == {name: tuple(weight.shape) for name, weight in weights.items()}
    for name, weight in weights.items():
        assert (read[name] - weight).abs().max() <= bound
    if storage.startswith('int'):
        assert torch.equal(read['norm'], weights['norm'])


def test_four_bits_take_a_sixth_of_sixteen_and_constants_are_exact(tmp_path):
    weights = {'w': torch.full((64, 64), 0.5), 'zero': torch.zeros(8, 32)}
    write_draft_file(tmp_path / 'd', make_card(storage='int4'), weights)
    header, read = read_draft_weights(tmp_path / 'd')
    assert header.tensors.num_weight_bytes == (64 * 64 + 8 * 32) * 5 // 8
    assert torch.equal(read['w'], weights['w'])
    assert torch.equal(read['zero'], weights['zero'])


def test_returns_the_checksum_of_the_whole_file_and_is_reproducible(tmp_path):
    first = write_draft_file(tmp_path / 'a', make_card(), make_weights())
    second = write_draft_file(tmp_path / 'b', make_card(), make_weights())
    assert first == second == hashlib.sha256((tmp_path / 'a').read_bytes()).hexdigest()
    assert sorted(path.name for path in tmp_path.iterdir()) == ['a', 'b']


def test_one_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / 'd'
    write_draft_file(path, make_card(), make_weights())
    data = bytearray(path.read_bytes())
    data[-5] ^= 4
    path.write_bytes(data)
    with pytest.raises(ModelFormatError, match=r'd is damaged: its data have SHA-256 \w+; the '):
        read_draft_weights(path)


def test_truncation_is_noticed_from_the_header(tmp_path):
    path = tmp_path / 'd'
    write_draft_file(path, make_card(), make_weights())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelFormatError, match='truncated'):
        read_draft_header(path)


def test_weights_that_are_not_finite_are_not_written(tmp_path):
    weights = {'w': torch.tensor([[1.0, float('nan')]])}
    with pytest.raises(DataError, match=r"weight 'w' of .* is not finite"):
        write_draft_file(tmp_path / 'd', make_card(), weights)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / 'd'
    write_draft_file(path, make_card(), make_weights())
    before = path.read_bytes()

    def full(_):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr('os.fsync', full)
    with pytest.raises(DataError, match=r'd cannot be written: .*No space left'):
        write_draft_file(path, make_card(domain='law'), make_weights())
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ['d']


def test_another_safetensors_file_is_no_draft(tmp_path):
    save_file({'w': torch.ones(2)}, tmp_path / 'd')
    with pytest.raises(ModelFormatError, match=r"is not a draft file: .* no 'memspec_draft'"):
        read_draft_header(tmp_path / 'd')
    with pytest.raises(ModelNotFoundError, match='no file'):
        read_draft_header(tmp_path / 'e')


@pytest.mark.parametrize(('change', 'message'), [
    ({'kind': 'eagle'}, "kind of a draft is 'eagle'; it must be one of independent, feature"),
    ({'storage': 'int2'}, "storage of a draft is 'int2'"),
    ({'version': 2}, 'version of a draft is 2; it must be one of 1'),
    ({'architecture': 3}, 'architecture of a draft must be an object'),
    ({'domain': None}, 'domain of a draft must be a string'),
    ({'domian': 'x'}, "unknown key 'domian'; did you mean 'domain'"),
])
def test_cards_are_checked(tmp_path, change, message):
    card = {'kind': 'feature', 'domain': '', 'architecture': {}, 'tokenizer_checksum': ''}
    save_file({'w': torch.ones(2)}, tmp_path / 'd',
              metadata={CARD_KEY: json.dumps({**card, **change})})
    with pytest.raises(ModelFormatError, match=message):
        read_draft_header(tmp_path / 'd')


@pytest.mark.parametrize('tensors', [
    {'w': torch.ones(4, 4, dtype=torch.int8)},
    {'w': torch.ones(4, 4, dtype=torch.int8), 'w.scale': torch.ones(3)},
    {'w': torch.ones(4, 4, dtype=torch.uint8), 'w.scale': torch.ones(4, 3).half(),
     'w.zero': torch.ones(4, 3).half()},
    {'w': torch.ones(4, dtype=torch.int64)},
])
def test_storages_that_do_not_exist_are_refused(tmp_path, tensors):
    card = {'kind': 'feature', 'domain': '', 'architecture': {}, 'tokenizer_checksum': ''}
    save_file(tensors, tmp_path / 'd', metadata={CARD_KEY: json.dumps(card)})
    with pytest.raises(ModelFormatError, match=r"tensor 'w' is torch.* is no storage"):
        read_draft_header(tmp_path / 'd')


def test_scales_must_lie_before_what_they_scale(tmp_path):
    """The safetensors library sorts tensors in its own way; a reader in one pass needs ours."""
    card = {'kind': 'feature', 'domain': '', 'architecture': {}, 'tokenizer_checksum': ''}
    tensors = {f'{name}{suffix}': tensor for name in ('v', 'w') for suffix, tensor in {
        '': torch.ones(4, 4, dtype=torch.int8), '.scale': torch.ones(4)}.items()}
    save_file(tensors, tmp_path / 'd', metadata={CARD_KEY: json.dumps(card)})
    with pytest.raises(ModelFormatError, match="scale and zero of 'v' must lie just before it"):
        read_draft_header(tmp_path / 'd')
