# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The tokenizer of the demo model against transformers' one of the same file."""

from __future__ import annotations

import random

import pytest

from memspec_ros.errors import ErrorCode, RequestError
from memspec_ros.models.tokenizer import Tokenizer
from memspec_ros.models.tokenizer_files import load_tokenizer
from memspec_ros.records import ChatMessage

TEXTS = [
    'Hello, world!', '', ' ', '\n', '  two spaces  ', 'tabs\tand\r\nline ends\n\n\n',
    "It's what they'd've said; we'll see, I'm sure.", 'ümläut ñandú Ærø', '日本語のテキスト',
    'Привет, мир', 'مرحبا بالعالم', 'emoji 🤖🦾👩‍👩‍👧 and flags 🇨🇭', 'e\u0301 combining',
    'def f(x: int) -> int:\n    return x ** 2  # squared\n', '{"a": [1, 2.5, null]}',
    '<BehaviorTree ID="Main">\n  <Sequence name="pick"/>\n</BehaviorTree>',
    'x=3.14159e-10; y = 42', 'step 1. go\nstep 2. stop', 'a\u00a0b\u200bc\ufeffd',
    '<|im_start|>user\nhi<|im_end|>\n', '<|im_start|><|im_start|>', 'broken <|im_ token',
    '½ ² ٣ Ⅳ numbers', '\u0000\u0001\u007f control', 'A' * 300, 'ab' * 200]


@pytest.fixture(scope='module')
def tokenizer(smollm2_file) -> Tokenizer:
    return load_tokenizer(smollm2_file)


@pytest.fixture(scope='module')
def reference(smollm2_file):
    """Return transformers' tokenizer, with the pre-tokenizer that SmolLM was trained with.

    transformers reads GGUF files without it, which shows only in white space before digits.
    """
    transformers = pytest.importorskip('transformers')
    from tokenizers import pre_tokenizers
    loaded = transformers.AutoTokenizer.from_pretrained(
        str(smollm2_file.parent), gguf_file=smollm2_file.name)
    loaded.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return loaded


def random_texts(count: int) -> list[str]:
    """Return texts of words, white space, digits and characters from all over Unicode."""
    draw = random.Random(7)
    pieces = [*TEXTS, *(chr(draw.randrange(0x20, 0xD800)) for _ in range(200)), ' ', '\n\n', '7']
    return [''.join(draw.choices(pieces, k=draw.randrange(1, 12))) for _ in range(count)]


def test_encodes_as_transformers_does(tokenizer: Tokenizer, reference) -> None:
    for text in [*TEXTS, *random_texts(300)]:
        assert tokenizer.encode(text) == reference.encode(text, add_special_tokens=False), text


def test_decodes_as_transformers_does(tokenizer: Tokenizer, reference) -> None:
    draw = random.Random(3)
    for length in range(1, 120):
        token_ids = [draw.randrange(tokenizer.vocab_size) for _ in range(length)]
        assert tokenizer.decode(token_ids) == reference.decode(
            token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def test_chat_equals_transformers(tokenizer: Tokenizer, reference) -> None:
    chats = [[('user', 'Say hi.')], [('system', 'Be brief.'), ('user', 'Where is 1 + 1?')],
             [('user', 'a'), ('assistant', 'b'), ('user', 'c\n\n1. d')]]
    for chat in chats:
        messages = [ChatMessage(role=role, content=content) for role, content in chat]
        turns = [{'role': role, 'content': content} for role, content in chat]
        text = reference.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        assert tokenizer.render_chat(messages) == text
        assert tokenizer.encode_chat(messages) == reference.encode(text)


def test_text_survives_the_round_trip(tokenizer: Tokenizer) -> None:
    for text in random_texts(100):
        if '<|im' not in text:
            assert tokenizer.decode(tokenizer.encode(text)) == text


def test_bytes_of_tokens(tokenizer: Tokenizer) -> None:
    pieces = [tokenizer.token_bytes(token) for token in tokenizer.encode(' né🤖')]
    assert b''.join(pieces) == ' né🤖'.encode()
    assert any(len(piece) < 4 and b'\xf0' in piece for piece in pieces), 'no split character'
    assert [tokenizer.token_bytes(token) for token in (0, 1, 2)] == [b'', b'', b'']
    assert tokenizer.token_bytes(tokenizer.vocab_size) == b''
    assert tokenizer.token_bytes(-1) == b''


def test_special_tokens_of_the_demo_model(tokenizer: Tokenizer) -> None:
    assert tokenizer.end_ids == {2}
    assert tokenizer.bos_id == 1
    assert tokenizer.vocab_size == 49152
    assert tokenizer.encode_raw('hi') == tokenizer.encode('hi')


def test_a_model_without_template_refuses_chats(tokenizer: Tokenizer) -> None:
    bare = Tokenizer(tokenizer._backend, special=tokenizer._special)
    with pytest.raises(RequestError, match='no chat template: send a raw prompt') as caught:
        bare.encode_chat([ChatMessage(role='user', content='hi')])
    assert caught.value.code is ErrorCode.UNSUPPORTED


def test_checksum_sees_every_token(tokenizer: Tokenizer) -> None:
    checksum = tokenizer.content_checksum()
    assert len(checksum) == 64
    tokenizer._content.texts[40000] += '?'
    try:
        assert tokenizer.content_checksum() != checksum
    finally:
        tokenizer._content.texts[40000] = tokenizer._content.texts[40000][:-1]
    assert tokenizer.content_checksum() == checksum
