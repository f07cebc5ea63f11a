# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Chat templates: what they may use, what they cannot do, and how they fail."""

from __future__ import annotations

import datetime

import pytest

from memspec_ros.errors import ErrorCode, ModelError, ModelFormatError, RequestError
from memspec_ros.models.chat_template import ChatTemplate
from memspec_ros.records import ChatMessage

USER = (ChatMessage(role='user', content='hi <b>'),)


def render(source: str, messages: tuple[ChatMessage, ...] = USER) -> str:
    return ChatTemplate(source, origin='m.gguf', special_tokens={'bos_token': '<s>'}).render(
        messages)


def test_renders_turns_and_special_tokens() -> None:
    source = ('{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m["content"] }}\n'
              '{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}')
    assert render(source) == '<s>[user] hi <b>\n[assistant]'


def test_blocks_are_trimmed_and_loops_can_break() -> None:
    source = '{% for m in messages %}\n  {% if loop.index > 1 %}\n    {% break %}\n' \
             '  {% endif %}\n{{ m.content }}\n{% endfor %}'
    assert render(source, USER * 3) == 'hi <b>\n'


def test_json_is_not_escaped_for_html() -> None:
    assert render('{{ messages[0] | tojson }}') == '{"role": "user", "content": "hi <b>"}'


def test_knows_the_date() -> None:
    assert render('{{ strftime_now("%Y") }}') == f'{datetime.datetime.now():%Y}'


def test_a_refusal_of_the_template_is_the_clients_error() -> None:
    with pytest.raises(RequestError, match='refuses these messages: roles must alternate') \
            as caught:
        render('{{ raise_exception("roles must alternate") }}')
    assert caught.value.code is ErrorCode.INVALID_GOAL


@pytest.mark.parametrize('source', ['{{ messages[9].content.upper() }}', '{{ 1 / 0 }}',
                                    '{{ messages.append(1) }}',
                                    '{{ messages.__class__.__mro__ }}', '{% include "x" %}'])
def test_a_failing_or_unsafe_template_is_a_model_error(source: str) -> None:
    with pytest.raises(ModelError, match=r'm\.gguf: the chat template failed on 1 messages'):
        render(source)


def test_a_template_with_a_syntax_error_is_refused_when_loaded() -> None:
    with pytest.raises(ModelFormatError, match=r'm\.gguf: the chat template is not valid, line 2'):
        ChatTemplate('\n{% for %}', origin='m.gguf')
