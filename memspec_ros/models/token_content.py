# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What each token stands for in bytes, from a tokenizer's own description."""

from __future__ import annotations

import re

import tokenizers

_BYTE_TOKEN = re.compile(r'<0x([0-9A-Fa-f]{2})>')


def _byte_alphabet() -> dict[str, int]:
    """Return the byte behind each character of byte-level BPE.

    GPT-2's alphabet (Radford et al. 2019, encoder.py): printable bytes stand for themselves, the
    others for the characters from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(0x100 + index): byte for index, byte in enumerate(others)})
    return alphabet


_ALPHABET = _byte_alphabet()


class TokenContent:
    """Token texts by id, and their bytes.

    ``texts`` holds every id's text as the file spells it, ``''`` where an id has none.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        vocabulary = backend.get_vocab(with_added_tokens=True)
        self.vocab_size = max(vocabulary.values(), default=-1) + 1
        self.texts = [''] * self.vocab_size
        for text, token_id in vocabulary.items():
            self.texts[token_id] = text
        self._byte_level = _is_byte_level(backend)
        self._cached = {
            token_id: b'' if token.special else token.content.encode()
            for token_id, token in backend.get_added_tokens_decoder().items()}

    def token_bytes(self, token_id: int) -> bytes:
        """Return a token's bytes: ``b''`` for special tokens and ids that do not exist."""
        known = self._cached.get(token_id)
        if known is None:
            inside = 0 <= token_id < self.vocab_size
            known = self._to_bytes(self.texts[token_id]) if inside else b''
            self._cached[token_id] = known
        return known

    def _to_bytes(self, text: str) -> bytes:
        if self._byte_level:
            return bytes(_ALPHABET[character] for character in text) \
                if all(character in _ALPHABET for character in text) else text.encode()
        escaped = _BYTE_TOKEN.fullmatch(text)  # SentencePiece: bytes it has no piece for
        if escaped:
            return bytes([int(escaped[1], 16)])
        return text.replace('\u2581', ' ').encode()


def _is_byte_level(backend: tokenizers.Tokenizer) -> bool:
    decoder = backend.decoder
    return decoder is not None and b'"ByteLevel"' in bytes(decoder.__getstate__())
