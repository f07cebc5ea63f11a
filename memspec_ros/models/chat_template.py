# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Chat templates: the Jinja text that a model file carries, rendered in a sandbox."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.sandbox

from memspec_ros.errors import ErrorCode, ModelError, ModelFormatError, RequestError
from memspec_ros.records import ChatMessage


class _RefusedByTemplateError(Exception):
    """The template called ``raise_exception``."""


def _raise_exception(message: str) -> NoReturn:
    raise _RefusedByTemplateError(message)


def _strftime_now(layout: str) -> str:
    return datetime.datetime.now().strftime(layout)


def _to_json(value: Any, indent: int | None = None, **_options: Any) -> str:
    # Jinja's own tojson escapes for HTML, which no model was trained on.
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _make_environment() -> jinja2.Environment:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    environment.filters['tojson'] = _to_json
    environment.globals['raise_exception'] = _raise_exception
    environment.globals['strftime_now'] = _strftime_now
    return environment


class ChatTemplate:
    """Turns chat messages into the text that the model was trained to continue.

    :param source: Jinja text, in the dialect of Hugging Face chat templates.
    :param origin: the file it comes from, for messages.
    :param special_tokens: ``bos_token`` and the like, as the template names them.
    :raises ModelFormatError: the text is not a Jinja template.
    """

    def __init__(self, source: str, *, origin: str,
                 special_tokens: dict[str, str] | None = None) -> None:
        self.source = source
        self._origin = origin
        self._special_tokens = special_tokens or {}
        try:
            self._template = _make_environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise ModelFormatError(f'{origin}: the chat template is not valid, line '
                                   f'{error.lineno}: {error.message}') from error

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """Render the messages, up to where the assistant's answer begins.

        :raises RequestError: INVALID_GOAL, the template refuses these messages.
        :raises ModelError: the template itself fails.
        """
        turns = [{'role': message.role, 'content': message.content} for message in messages]
        try:
            return self._template.render(messages=turns, add_generation_prompt=True, tools=None,
                                         documents=None, **self._special_tokens)
        except _RefusedByTemplateError as error:
            raise RequestError(ErrorCode.INVALID_GOAL,
                               f'the chat template refuses these messages: {error}') from error
        except Exception as error:  # a template can fail in any way that Python can
            raise ModelError(f'{self._origin}: the chat template failed on {len(turns)} '
                             f'messages: {type(error).__name__}: {error}') from error
