# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What tokens stand for in bytes."""

from __future__ import annotations

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from memspec_ros.models.token_content import TokenContent


def make_backend(vocabulary: list[str], decoder: object = None) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE(
        vocab={text: index for index, text in enumerate(vocabulary)}, merges=[]))
    if decoder is not None:
        backend.decoder = decoder
    return backend


def test_all_bytes_of_the_byte_level_alphabet() -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    content = TokenContent(make_backend(alphabet, decoders.ByteLevel()))
    assert sorted(content.token_bytes(token) for token in range(256)) == \
        [bytes([value]) for value in range(256)]
    space = alphabet.index('\u0120')
    assert content.token_bytes(space) == b' '


def test_byte_level_inside_a_sequence() -> None:
    decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Fuse()])
    assert TokenContent(make_backend(['\u0120a'], decoder)).token_bytes(0) == b' a'


def test_characters_outside_the_alphabet_are_taken_as_they_are() -> None:
    assert TokenContent(make_backend(['\u65e5'], decoders.ByteLevel())).token_bytes(0) == \
        '\u65e5'.encode()


def test_sentencepiece() -> None:
    content = TokenContent(make_backend(['\u2581the', '<0xE2>', '<0x>'], decoders.Metaspace()))
    assert [content.token_bytes(token) for token in range(3)] == [b' the', b'\xe2', b'<0x>']


def test_ids_without_a_token() -> None:
    backend = make_backend(['a', 'b'])
    backend.add_special_tokens(['<s>'])
    content = TokenContent(backend)
    assert (content.vocab_size, content.texts) == (3, ['a', 'b', '<s>'])
    assert [content.token_bytes(token) for token in (-1, 2, 3)] == [b'', b'', b'']
