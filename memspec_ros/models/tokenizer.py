# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Text to tokens and back, over a `tokenizers` backend."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers

from memspec_ros.atomic_file import written_beside
from memspec_ros.errors import ErrorCode, RequestError
from memspec_ros.models.chat_template import ChatTemplate
from memspec_ros.models.token_content import TokenContent
from memspec_ros.records import ChatMessage


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Tokens with a role: where a text begins and what ends an answer."""

    bos_id: int | None = None
    eos_id: int | None = None
    end_ids: frozenset[int] = frozenset()


class Tokenizer:
    """The tokenizer of one model.

    :param backend: does the splitting and merging.
    :param special: which tokens begin and end.
    :param chat_template: None for a model that was not trained to chat.
    """

    def __init__(self, backend: tokenizers.Tokenizer, *, special: SpecialTokens,
                 chat_template: ChatTemplate | None = None) -> None:
        self._backend = backend
        self._special = special
        self._chat_template = chat_template
        self._content = TokenContent(backend)
        self.vocab_size = self._content.vocab_size

    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return self._special.end_ids

    @property
    def bos_id(self) -> int | None:
        """The token that begins a text, if the model has one."""
        return self._special.bos_id

    @property
    def has_chat_template(self) -> bool:
        """Whether chats can be rendered; without, only raw prompts are served."""
        return self._chat_template is not None

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; special tokens written out in it are recognised."""
        return self._backend.encode(text, add_special_tokens=False).ids

    def encode_raw(self, text: str) -> list[int]:
        """Return the tokens of a prompt without a template, with what the model puts before."""
        return self._backend.encode(text, add_special_tokens=True).ids

    def encode_chat(self, messages: Sequence[ChatMessage]) -> list[int]:
        """Return the tokens of a chat, up to where the answer begins.

        :raises RequestError: UNSUPPORTED without a chat template, INVALID_GOAL when it refuses.
        :raises ModelError: the template itself fails.
        """
        return self.encode(self.render_chat(messages))

    def render_chat(self, messages: Sequence[ChatMessage]) -> str:
        """Return the text of a chat under the model's template. Raises as above."""
        if self._chat_template is None:
            raise RequestError(ErrorCode.UNSUPPORTED, 'the model has no chat template: send a '
                               'raw prompt')
        return self._chat_template.render(messages)

    def decode(self, token_ids: Iterable[int]) -> str:
        """Return the text of tokens, special ones left out; broken UTF-8 becomes U+FFFD."""
        return b''.join(map(self.token_bytes, token_ids)).decode('utf-8', 'replace')

    def token_bytes(self, token_id: int) -> bytes:
        """Return what a token adds to the text: ``b''`` for special and for unknown tokens."""
        return self._content.token_bytes(token_id)

    def save(self, folder: Path) -> None:
        """Write what a model folder has of its tokenizer, the chat template included.

        :raises DataError: a file cannot be written.
        """
        roles = {'bos_token': self._special.bos_id, 'eos_token': self._special.eos_id}
        options = {role: self._content.texts[token_id] for role, token_id in roles.items()
                   if token_id is not None}
        if self._chat_template is not None:
            options['chat_template'] = self._chat_template.source
        documents = {'tokenizer.json': self._backend.to_str(),
                     'tokenizer_config.json': json.dumps(options, ensure_ascii=False, indent=2),
                     'generation_config.json': json.dumps({
                         'eos_token_id': sorted(self._special.end_ids)})}
        for name, text in documents.items():
            with written_beside(folder / name) as file:
                file.write(text.encode())

    def content_checksum(self) -> str:
        """Return a hash of every token's content and of BOS and EOS (hexadecimal).

        Equal sizes do not mean equal vocabularies, so this is what target and draft compare.
        """
        digest = hashlib.sha256()
        for text in self._content.texts:
            raw = text.encode('utf-8', 'surrogatepass')
            digest.update(len(raw).to_bytes(4, 'little') + raw)
        digest.update(repr((self._special.bos_id, self._special.eos_id)).encode())
        return digest.hexdigest()
