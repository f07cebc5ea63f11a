# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Byte-level BPE tokenizers from the metadata of a GGUF file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from memspec_ros.errors import ModelFormatError, UnsupportedModelError
from memspec_ros.models.chat_template import ChatTemplate
from memspec_ros.models.gguf_header import GgufHeader
from memspec_ros.models.tokenizer import SpecialTokens, Tokenizer

# Token types of GGUF (ggml-org/llama.cpp, enum llama_token_type).
_CONTROL, _USER_DEFINED = 3, 4

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r'| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+'


def _gpt2() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _smollm() -> pre_tokenizers.PreTokenizer:
    # SmolLM was trained with single digits split off before the words; without this a run of
    # white space before a digit falls apart (transformers' GGUF path leaves it out).
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _gpt2()])


def _split(numbers: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(_WORDS + numbers + _REST), behavior='isolated'),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _qwen2() -> pre_tokenizers.PreTokenizer:
    return _split(r'\p{N}')


def _llama_bpe() -> pre_tokenizers.PreTokenizer:
    return _split(r'\p{N}{1,3}')


PRE_TOKENIZERS: dict[str, Callable[[], pre_tokenizers.PreTokenizer]] = {
    'gpt-2': _gpt2, 'smollm': _smollm, 'qwen2': _qwen2, 'llama-bpe': _llama_bpe}


def make_tokenizer(header: GgufHeader) -> Tokenizer:
    """Build the tokenizer that a GGUF file describes.

    :raises ModelFormatError: tokens or merges are missing, of the wrong type, or contradictory.
    :raises UnsupportedModelError: the file has another kind of tokenizer; the message says that
        a tokenizer folder can be given instead.
    """
    return _MetadataTokenizer(header).make()


class _MetadataTokenizer:
    """Reads the ``tokenizer.*`` entries of one file."""

    def __init__(self, header: GgufHeader) -> None:
        self._origin = str(header.path)
        self._metadata = header.metadata

    def make(self) -> Tokenizer:
        """Return the tokenizer."""
        kind, pre = self._get('model'), self._get('pre', 'gpt-2')
        if kind != 'gpt2' or pre not in PRE_TOKENIZERS:
            raise UnsupportedModelError(
                f"{self._origin}: the tokenizer is '{kind}' with pre-tokenizer '{pre}'; from GGUF "
                f"files 'gpt2' with {', '.join(PRE_TOKENIZERS)} is read. Set target.tokenizer to "
                'a folder with tokenizer.json')
        tokens = self._strings('tokens')
        backend = self._backend(tokens, pre)
        special = self._special(len(tokens))
        if self._get('add_bos_token', False) and special.bos_id is not None:
            backend.post_processor = processors.TemplateProcessing(
                single=f'{tokens[special.bos_id]} $A',
                special_tokens=[(tokens[special.bos_id], special.bos_id)])
        return Tokenizer(backend, special=special, chat_template=self._template(tokens, special))

    def _get(self, key: str, default: Any = None) -> Any:
        return self._metadata.get(f'tokenizer.ggml.{key}', default)

    def _fail(self, what: str) -> ModelFormatError:
        return ModelFormatError(f'{self._origin}: {what}')

    def _strings(self, key: str) -> list[str]:
        values = self._get(key)
        if not isinstance(values, list) or not values or not isinstance(values[0], str):
            raise self._fail(f"metadata 'tokenizer.ggml.{key}' is missing or not a list of "
                             'strings; the file has no usable tokenizer')
        return values

    def _backend(self, tokens: list[str], pre: str) -> tokenizers.Tokenizer:
        vocabulary = {text: index for index, text in enumerate(tokens)}
        if len(vocabulary) != len(tokens):
            raise self._fail(f'{len(tokens) - len(vocabulary)} of {len(tokens)} tokens occur '
                             'twice')
        try:
            model = models.BPE(vocab=vocabulary, merges=self._merges(),
                               ignore_merges=pre == 'llama-bpe')
        except Exception as error:  # the backend raises bare exceptions
            raise self._fail(f'its merges do not fit its tokens: {error}') from error
        backend = tokenizers.Tokenizer(model)
        backend.pre_tokenizer = PRE_TOKENIZERS[pre]()
        backend.decoder = decoders.ByteLevel()
        if pre == 'qwen2':
            backend.normalizer = normalizers.NFC()
        self._add_special(backend, tokens)
        return backend

    def _merges(self) -> list[tuple[str, str]]:
        pairs = [tuple(merge.split(' ')) for merge in self._strings('merges')]
        bad = next((pair for pair in pairs if len(pair) != 2), None)
        if bad is not None:
            raise self._fail(f'merge {" ".join(bad)!r} has {len(bad)} parts, expected 2')
        return [(left, right) for left, right in pairs]

    def _add_special(self, backend: tokenizers.Tokenizer, tokens: list[str]) -> None:
        kinds = self._get('token_type', [])
        if not isinstance(kinds, list) or len(kinds) not in (0, len(tokens)):
            raise self._fail(f"'tokenizer.ggml.token_type' does not have {len(tokens)} items")
        for control in (True, False):
            wanted = _CONTROL if control else _USER_DEFINED
            added = [AddedToken(text, special=control, normalized=False)
                     for text, kind in zip(tokens, kinds, strict=False) if kind == wanted]
            (backend.add_special_tokens if control else backend.add_tokens)(added)

    def _special(self, vocab_size: int) -> SpecialTokens:
        ends = [self._token_id(f'{name}_token_id', vocab_size) for name in ('eos', 'eot', 'eom')]
        return SpecialTokens(bos_id=self._token_id('bos_token_id', vocab_size),
                             eos_id=self._token_id('eos_token_id', vocab_size),
                             end_ids=frozenset(end for end in ends if end is not None))

    def _token_id(self, key: str, vocab_size: int) -> int | None:
        value = self._get(key)
        if value is not None and not (isinstance(value, int) and 0 <= value < vocab_size):
            raise self._fail(f"'tokenizer.ggml.{key}' is {value!r}, expected a token below "
                             f'{vocab_size}')
        return value

    def _template(self, tokens: list[str], special: SpecialTokens) -> ChatTemplate | None:
        source = self._metadata.get('tokenizer.chat_template')
        if not isinstance(source, str):
            return None
        named = {'bos_token': special.bos_id, 'eos_token': special.eos_id}
        return ChatTemplate(source, origin=self._origin, special_tokens={
            name: tokens[index] for name, index in named.items() if index is not None})
