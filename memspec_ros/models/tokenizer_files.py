# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Tokenizers from a folder with ``tokenizer.json``, or from whatever file a model is in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers

from memspec_ros.errors import ModelFormatError, ModelNotFoundError
from memspec_ros.models.chat_template import ChatTemplate
from memspec_ros.models.gguf_header import read_header
from memspec_ros.models.gguf_tokenizer import make_tokenizer
from memspec_ros.models.tokenizer import SpecialTokens, Tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a tokenizer from a GGUF file, a ``tokenizer.json``, or a folder with one.

    :raises ModelNotFoundError: there is no such file, or the folder has no ``tokenizer.json``.
    :raises ModelFormatError: it is damaged.
    :raises UnsupportedModelError: a GGUF file with a kind of tokenizer that is not read.
    """
    if path.suffix == '.gguf':
        return make_tokenizer(read_header(path))
    folder = path if path.is_dir() else path.parent
    file = path / 'tokenizer.json' if path.is_dir() else path
    if not file.is_file():
        raise ModelNotFoundError(f'there is no tokenizer at {file}; a model folder needs its '
                                 'tokenizer.json, or set target.tokenizer')
    try:
        backend = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the backend raises bare exceptions
        raise ModelFormatError(f'{file}: not a tokenizer: {error}') from error
    return _FolderTokenizer(folder, backend).make()


class _FolderTokenizer:
    """Reads what lies beside ``tokenizer.json``: special tokens and the chat template."""

    def __init__(self, folder: Path, backend: tokenizers.Tokenizer) -> None:
        self._folder = folder
        self._backend = backend
        self._options = read_json(folder / 'tokenizer_config.json')

    def make(self) -> Tokenizer:
        """Return the tokenizer."""
        names = {role: self._text(role) for role in ('bos_token', 'eos_token')}
        ids = {role: self._backend.token_to_id(text) if text else None
               for role, text in names.items()}
        special = SpecialTokens(bos_id=ids['bos_token'], eos_id=ids['eos_token'],
                                end_ids=self._end_ids(ids['eos_token']))
        return Tokenizer(self._backend, special=special, chat_template=self._template(
            {role: text for role, text in names.items() if text}))

    def _text(self, role: str) -> str:
        value = self._options.get(role)
        text = value.get('content') if isinstance(value, dict) else value
        return text if isinstance(text, str) else ''

    def _end_ids(self, eos_id: int | None) -> frozenset[int]:
        # generation_config.json knows best: a chat model may end with either of two tokens.
        for name in ('generation_config.json', 'config.json'):
            found = read_json(self._folder / name).get('eos_token_id')
            listed = found if isinstance(found, list) else [found]
            ends = frozenset(value for value in listed if type(value) is int)
            if ends:
                return ends | ({eos_id} if eos_id is not None else set())
        return frozenset() if eos_id is None else frozenset({eos_id})

    def _template(self, special_tokens: dict[str, str]) -> ChatTemplate | None:
        file = self._folder / 'chat_template.jinja'
        if file.is_file():
            source: Any = file.read_text(encoding='utf-8')
        else:
            source = self._options.get('chat_template')
        if isinstance(source, list):  # several named ones
            named = {item.get('name'): item.get('template') for item in source}
            source = named.get('default')
        return ChatTemplate(source, origin=str(file), special_tokens=special_tokens) \
            if isinstance(source, str) else None


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object; a file that does not exist is an empty one.

    :raises ModelFormatError: it is not a JSON object.
    """
    if not file.is_file():
        return {}
    try:
        document = json.loads(file.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise ModelFormatError(f'{file}: not valid JSON: {error}') from error
    if not isinstance(document, dict):
        raise ModelFormatError(f'{file}: it is a {type(document).__name__}, expected an object')
    return document
