# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Tokenizers from GGUF metadata: each pre-tokenizer, special tokens, and damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tokenizers import pre_tokenizers

from memspec_ros.errors import ModelFormatError, UnsupportedModelError
from memspec_ros.models.gguf_header import GgufHeader
from memspec_ros.models.gguf_tokenizer import PRE_TOKENIZERS, make_tokenizer

SPLITS = {
    'gpt-2': {'a  12 b': ['a', 'Ġ', 'Ġ12', 'Ġb'], "I'd\n\n1": ['I', "'d", 'Ċ', 'Ċ', '1']},
    'smollm': {'a  12 b': ['a', 'ĠĠ', '1', '2', 'Ġb'], "I'd\n\n1": ['I', "'d", 'ĊĊ', '1']},
    'qwen2': {'a  12 b': ['a', 'Ġ', 'Ġ', '1', '2', 'Ġb'], "I'D x!\n\n1": [
        'I', "'D", 'Ġx', '!ĊĊ', '1']},
    'llama-bpe': {'a 1234 b': ['a', 'Ġ', '123', '4', 'Ġb'], "I'D x!\n\n1": [
        'I', "'D", 'Ġx', '!ĊĊ', '1']},
}


def make_header(**changes: Any) -> GgufHeader:
    """Return a header with a small vocabulary; a change to None takes an entry away."""
    tokens = ['<bos>', '<end>', '<tool>', *sorted(pre_tokenizers.ByteLevel.alphabet()), 'ab',
              'abc', 'bc']
    entries: dict[str, Any] = {
        'model': 'gpt2', 'pre': 'gpt-2', 'tokens': tokens, 'merges': ['b c', 'a b', 'ab c'],
        'token_type': [3, 3, 4] + [1] * (len(tokens) - 3), 'bos_token_id': 0, 'eos_token_id': 1}
    entries.update(changes)
    return GgufHeader(path=Path('m.gguf'), tensors={}, num_bytes=0, metadata={
        f'tokenizer.ggml.{key}': value for key, value in entries.items() if value is not None})


@pytest.mark.parametrize('pre', SPLITS)
def test_pre_tokenizers(pre: str) -> None:
    for text, pieces in SPLITS[pre].items():
        found = [piece for piece, _ in PRE_TOKENIZERS[pre]().pre_tokenize_str(text)]
        assert found == pieces


def test_merges_apply_in_their_order() -> None:
    tokenizer = make_tokenizer(make_header())
    texts = [tokenizer._content.texts[token] for token in tokenizer.encode('abc')]
    assert texts == ['a', 'bc']


def test_llama_takes_whole_words_first() -> None:
    tokenizer = make_tokenizer(make_header(pre='llama-bpe'))
    assert len(tokenizer.encode('abc')) == 1


def test_qwen2_normalises() -> None:
    tokenizer = make_tokenizer(make_header(pre='qwen2'))
    assert tokenizer.encode('e\u0301') == tokenizer.encode('\u00e9')


def test_special_tokens() -> None:
    tokenizer = make_tokenizer(make_header(add_bos_token=True, eot_token_id=2))
    assert tokenizer.end_ids == {1, 2}
    assert tokenizer.encode('<end>a<tool>')[0::2] == [1, 2]
    assert tokenizer.encode_raw('') == [0]
    assert tokenizer.token_bytes(1) == b''
    assert tokenizer.token_bytes(2) == b'<tool>'


@pytest.mark.parametrize(('changes', 'message'), [
    ({'tokens': None}, r"m\.gguf: metadata 'tokenizer\.ggml\.tokens' is missing"),
    ({'tokens': [1, 2]}, 'not a list of strings'),
    ({'tokens': ['a', 'a'], 'token_type': None}, '1 of 2 tokens occur twice'),
    ({'merges': ['a b c']}, "merge 'a b c' has 3 parts, expected 2"),
    ({'merges': ['x~ y']}, 'its merges do not fit its tokens'),
    ({'token_type': [1]}, "'tokenizer.ggml.token_type' does not have"),
    ({'eos_token_id': 10**6}, "'tokenizer.ggml.eos_token_id' is 1000000, expected a token below"),
])
def test_damage_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        make_tokenizer(make_header(**changes))


@pytest.mark.parametrize('changes', [{'model': 'llama'}, {'pre': 'deepseek-llm'}])
def test_other_kinds_point_to_a_folder(changes: dict[str, str]) -> None:
    with pytest.raises(UnsupportedModelError, match=r'Set target\.tokenizer to a folder'):
        make_tokenizer(make_header(**changes))
