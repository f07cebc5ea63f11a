# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Tokenizer folders: what is read beside tokenizer.json, and how damage is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from memspec_ros.errors import ModelFormatError, ModelNotFoundError
from memspec_ros.models.tokenizer_files import load_tokenizer, read_json
from memspec_ros.records import ChatMessage


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a byte-level tokenizer of single bytes, as transformers saves it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = tokenizers.Tokenizer(models.BPE(
        vocab={text: index for index, text in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(['<s>', '</s>', '<end>'])
    backend.add_tokens(['<tool>'])
    backend.post_processor = processors.TemplateProcessing(
        single='<s> $A', special_tokens=[('<s>', 256)])
    backend.save(str(tmp_path / 'tokenizer.json'))
    write(tmp_path / 'tokenizer_config.json', {
        'bos_token': {'content': '<s>', 'lstrip': False}, 'eos_token': '</s>',
        'chat_template': '{{ bos_token }}{{ messages[0].content }}{{ eos_token }}'})
    return tmp_path


def write(file: Path, document: object) -> None:
    file.write_text(json.dumps(document), encoding='utf-8')


def test_reads_tokens_and_template(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    assert tokenizer.vocab_size == 260
    assert (tokenizer.bos_id, tokenizer.end_ids) == (256, {257})
    chat = tokenizer.encode_chat([ChatMessage(role='user', content='a')])
    assert chat == [256, *tokenizer.encode('a'), 257]
    assert tokenizer.encode_raw('a') == [256, *tokenizer.encode('a')]


def test_the_file_itself_serves_too(folder: Path) -> None:
    assert load_tokenizer(folder / 'tokenizer.json').content_checksum() == \
        load_tokenizer(folder).content_checksum()


def test_added_tokens_that_are_not_special_have_text(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    assert tokenizer.encode('x<tool>y')[1] == 259
    assert tokenizer.decode(tokenizer.encode('x<tool></s>é')) == 'x<tool>é'


def test_generation_config_names_all_end_tokens(folder: Path) -> None:
    write(folder / 'config.json', {'eos_token_id': 3})
    assert load_tokenizer(folder).end_ids == {3, 257}
    write(folder / 'generation_config.json', {'eos_token_id': [257, 258]})
    assert load_tokenizer(folder).end_ids == {257, 258}


def test_a_template_file_comes_before_the_configuration(folder: Path) -> None:
    (folder / 'chat_template.jinja').write_text('new {{ messages[0].content }}')
    messages = [ChatMessage(role='user', content='a')]
    assert load_tokenizer(folder).render_chat(messages) == 'new a'


def test_named_templates(folder: Path) -> None:
    write(folder / 'tokenizer_config.json', {'chat_template': [
        {'name': 'tool_use', 'template': 'no'}, {'name': 'default', 'template': 'yes'}]})
    assert load_tokenizer(folder).render_chat([ChatMessage(role='user', content='a')]) == 'yes'


def test_sentencepiece_bytes(tmp_path: Path) -> None:
    backend = tokenizers.Tokenizer(models.BPE(
        vocab={'<unk>': 0, '<0x0A>': 1, '\u2581hi': 2}, merges=[], byte_fallback=True))
    backend.decoder = decoders.Sequence([decoders.Replace('\u2581', ' '),
                                         decoders.ByteFallback(), decoders.Fuse()])
    backend.save(str(tmp_path / 'tokenizer.json'))
    tokenizer = load_tokenizer(tmp_path)
    assert [tokenizer.token_bytes(token) for token in (1, 2)] == [b'\n', b' hi']


def test_missing_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r'no tokenizer at .*tokenizer\.json'):
        load_tokenizer(tmp_path)


def test_damaged_tokenizer(folder: Path) -> None:
    (folder / 'tokenizer.json').write_text('{"model": {"type": "BPE"')
    with pytest.raises(ModelFormatError, match=r'tokenizer\.json: not a tokenizer'):
        load_tokenizer(folder)


def test_damaged_configuration(folder: Path) -> None:
    (folder / 'tokenizer_config.json').write_text('[1')
    with pytest.raises(ModelFormatError, match=r'tokenizer_config\.json: not valid JSON'):
        load_tokenizer(folder)
    write(folder / 'tokenizer_config.json', [1])
    with pytest.raises(ModelFormatError, match='it is a list, expected an object'):
        read_json(folder / 'tokenizer_config.json')
