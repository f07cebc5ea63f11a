# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A pool's files: added, opened, and told when they are missing or are not what was described."""

import json
import shutil

import pytest
import tokenizers
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from memspec_ros.errors import (
    ModelFormatError,
    ModelNotFoundError,
    TokenizerMismatchError,
)
from memspec_ros.models.draft_conversion import convert_checkpoint
from memspec_ros.models.draft_file import read_draft_weights
from memspec_ros.models.draft_kinds import Surroundings
from memspec_ros.models.draft_set import DraftSet
from memspec_ros.models.draft_slots import DraftSlots
from memspec_ros.models.pool import Pool, load_pool
from memspec_ros.models.pool_files import add_draft, open_entry, openers, unavailable_drafts
from memspec_ros.models.tokenizer_files import load_tokenizer
from memspec_ros.testing.scripted_model import ScriptedContext, ScriptedTarget
from memspec_ros.testing.tiny_draft import write_tiny_draft

CHECKSUM = 'cd' * 32


@pytest.fixture
def pool(tmp_path):
    """An empty pool's description."""
    return Pool(name='tiny', target='t', drafts=(), path=tmp_path / 'pool.yaml')


def write_checkpoint(folder, model_class=Qwen2ForCausalLM, config_class=Qwen2Config, **options):
    torch.manual_seed(4)
    config = config_class(**{
        'vocab_size': 64, 'hidden_size': 32, 'intermediate_size': 48, 'num_hidden_layers': 2,
        'num_attention_heads': 4, 'num_key_value_heads': 2, 'max_position_embeddings': 128,
        'tie_word_embeddings': True, **options})
    model = model_class(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder, max_shard_size='20KB' if options.get('shards') else '1GB')
    return model


def test_a_draft_file_is_added_with_what_its_card_says(tmp_path, pool):
    checksum = write_tiny_draft(tmp_path / 'law.safetensors', domain='law', storage='int8',
                                head_rows=40, tokenizer_checksum=CHECKSUM)
    pool = add_draft(pool, tmp_path / 'law.safetensors', name='lawyer')
    assert load_pool(pool.path) == pool
    entry = pool['lawyer']
    assert (entry.domain, entry.dtype, entry.output_rows, entry.file, entry.checksum) \
        == ('law', 'int8', 40, 'law.safetensors', checksum)
    assert entry.num_bytes == (tmp_path / 'law.safetensors').stat().st_size
    assert pool.tokenizer_checksum == CHECKSUM
    assert open_entry(pool, entry).name == 'lawyer'


def test_adding_a_name_again_replaces_it(tmp_path, pool):
    for seed in range(2):
        write_tiny_draft(tmp_path / f'{seed}', seed=seed)
        pool = add_draft(pool, tmp_path / f'{seed}', name='a', general=True)
    assert [entry.file for entry in pool.drafts] == ['1']
    assert pool.general == 'a'


def test_what_is_not_there_cannot_be_added(tmp_path, pool):
    with pytest.raises(ModelNotFoundError, match=r'there is no .*gone to add to pool'):
        add_draft(pool, tmp_path / 'gone', name='a')


def test_a_draft_for_other_tokens_is_refused(tmp_path, pool):
    write_tiny_draft(tmp_path / 'a', tokenizer_checksum=CHECKSUM)
    write_tiny_draft(tmp_path / 'b', tokenizer_checksum='ef' * 32)
    pool = add_draft(pool, tmp_path / 'a', name='a')
    with pytest.raises(TokenizerMismatchError, match=r"draft 'b': .*b was made for tokens of "
                                                     r"content efefefefefef; the pool's have cd"):
        add_draft(pool, tmp_path / 'b', name='b')


def test_missing_and_changed_files_are_told_and_the_pool_opens(tmp_path, pool):
    for name in 'abc':
        write_tiny_draft(tmp_path / name)
        pool = add_draft(pool, tmp_path / name, name=name)
    (tmp_path / 'a').unlink()
    write_tiny_draft(tmp_path / 'b', storage='int8')
    pool = load_pool(pool.path)
    reasons = unavailable_drafts(pool)
    assert set(reasons) == {'a', 'b'}
    assert "draft 'a': there is no" in reasons['a']
    assert 'memspec distill makes it' in reasons['a']
    assert f'its entry in {pool.path} says' in reasons['b']


def test_a_draft_of_the_hub_that_is_not_cached_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_CACHE', str(tmp_path))
    path = tmp_path / 'pool.yaml'
    path.write_text('name: a\ntarget: t\ndrafts:\n'
                    '- {name: d, domain: code, hf: org/name@v1, format: checkpoint}\n')
    assert unavailable_drafts(load_pool(path)) == {
        'd': "draft 'd': hf:org/name@v1 is not in the local cache; get it with: hf download "
             'org/name --revision v1'}


@pytest.mark.parametrize(('model_class', 'config_class', 'options'), [
    (Qwen2ForCausalLM, Qwen2Config, {}),
    (Qwen2ForCausalLM, Qwen2Config, {'shards': True}),
    (LlamaForCausalLM, LlamaConfig, {'tie_word_embeddings': False}),
])
def test_a_checkpoint_folder_serves_as_a_draft(tmp_path, pool, model_class, config_class,
                                               options):
    """Its first proposal is the token that transformers finds most probable."""
    model = write_checkpoint(tmp_path / 'hf', model_class, config_class, **options)
    pool = add_draft(pool, tmp_path / 'hf', name='d', domain='code')
    assert pool['d'].dtype == 'fp32'
    assert (pool['d'].checksum == '') == bool(options.get('shards'))
    surroundings = Surroundings(form='fp32', context_tokens=64, vocab_size=64, hidden_size=48)
    drafts = DraftSet(openers(pool), surroundings)
    assert drafts.unavailable == {}
    slots = DraftSlots(drafts, num_slots=1, surroundings=surroundings)
    slots.source('d')(0, should_cancel=lambda: False, throttle=lambda _: None)
    context = ScriptedContext(tokens=[5, 9, 33, 2, 60, 11, 7], prompt_length=3,
                              target=ScriptedTarget(end_ids=frozenset()))
    expected = list(context.tokens)
    with torch.no_grad():
        for _ in range(4):
            expected.append(int(model(torch.tensor([expected])).logits[0, -1].argmax()))
    assert slots.draft(0, 'd').propose(context, 4) == expected[-4:]


def test_a_checkpoint_of_other_tokens_is_refused(tmp_path, pool):
    write_checkpoint(tmp_path / 'hf')
    write_tokenizer(tmp_path / 'hf', ['a', 'b', 'c'])
    write_tokenizer(tmp_path / 'same', ['a', 'b', 'c', 'more'])
    write_tokenizer(tmp_path / 'other', ['a', 'x', 'c'])
    add_draft(pool, tmp_path / 'hf', name='d', target_tokens=load_tokenizer(tmp_path / 'same'))
    with pytest.raises(TokenizerMismatchError, match=(
            r"draft 'd' has other tokens than the target: 1 of 3 tokens differ, first 1 \(b'b' "
            r"and b'x'\)")):
        add_draft(pool, tmp_path / 'hf', name='d',
                  target_tokens=load_tokenizer(tmp_path / 'other'))


@pytest.mark.parametrize(('storage', 'bound'), [('fp32', 0.0), ('int8', 0.01), ('int4', 0.2)])
def test_a_checkpoint_becomes_a_draft_file(tmp_path, storage, bound):
    model = write_checkpoint(tmp_path / 'hf')
    checksum = convert_checkpoint(tmp_path / 'hf', tmp_path / 'd', storage=storage,
                                  domain='code', tokenizer_checksum=CHECKSUM)
    pool = add_draft(Pool(name='p', target='t', drafts=(), path=tmp_path / 'pool.yaml'),
                     tmp_path / 'd', name='d')
    assert (pool['d'].checksum, pool['d'].dtype, pool['d'].domain) == (checksum, storage, 'code')
    assert pool.tokenizer_checksum == CHECKSUM
    _, weights = read_draft_weights(tmp_path / 'd')
    original = model.state_dict()
    fused = torch.cat([original[f'model.layers.1.mlp.{part}_proj.weight']
                       for part in ('gate', 'up')])
    assert (weights['layers.1.gate_up'] - fused).abs().max() <= bound
    assert (weights['layers.1.gate_up'] != fused).any() == (bound > 0)


def write_tokenizer(folder, words):
    folder.mkdir(exist_ok=True)
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=words[0])).save(
        str(folder / 'tokenizer.json'))


def test_a_checkpoint_that_lacks_a_shard_names_it(tmp_path, pool):
    write_checkpoint(tmp_path / 'hf', shards=True)
    pool = add_draft(pool, tmp_path / 'hf', name='d')
    shard = sorted((tmp_path / 'hf').glob('*.safetensors'))[0]
    shard.unlink()
    with pytest.raises(ModelNotFoundError, match=f'no file .*{shard.name}'):
        open_entry(pool, pool['d'])


def test_a_checkpoint_that_lacks_a_tensor_names_it(tmp_path, pool):
    write_checkpoint(tmp_path / 'hf')
    save_file({'model.norm.weight': torch.ones(32)}, tmp_path / 'hf' / 'model.safetensors')
    with pytest.raises(ModelFormatError, match='fill 0 of the 2048 weights of embedding'):
        add_draft(pool, tmp_path / 'hf', name='d')


def test_a_checkpoint_whose_config_does_not_go_with_its_tensors(tmp_path, pool):
    write_checkpoint(tmp_path / 'hf')
    config = json.loads((tmp_path / 'hf' / 'config.json').read_text())
    config['intermediate_size'] = 40
    (tmp_path / 'hf' / 'config.json').write_text(json.dumps(config))
    with pytest.raises(ModelFormatError, match=r"'model.layers.0.mlp.down_proj.weight' is "
                                               r'\[32, 48\]; as part of layers.0.down \[32, 40\]'):
        add_draft(pool, tmp_path / 'hf', name='d')


def test_a_folder_that_is_no_checkpoint(tmp_path, pool):
    (tmp_path / 'hf').mkdir()
    with pytest.raises(ModelNotFoundError, match=r'hf has no config\.json'):
        add_draft(pool, tmp_path / 'hf', name='d')


def test_a_pool_may_be_moved(tmp_path):
    folder = tmp_path / 'one'
    folder.mkdir()
    write_tiny_draft(folder / 'a')
    add_draft(Pool(name='p', target='t', drafts=(), path=folder / 'pool.yaml'), folder / 'a',
              name='a')
    shutil.move(folder, tmp_path / 'two')
    assert unavailable_drafts(load_pool(tmp_path / 'two' / 'pool.yaml')) == {}
