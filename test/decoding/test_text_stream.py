# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Incremental text: whole characters, stop strings across tokens, nothing past them."""

import random

import pytest

from memspec_ros.decoding.text_stream import TextStream


def stream_of(*pieces: bytes, stop=()):
    return TextStream(lambda token_id: pieces[token_id], stop), range(len(pieces))


def test_a_character_split_over_tokens_is_never_emitted_in_part():
    euro = '€'.encode()
    text, ids = stream_of(b'5 ', euro[:1], euro[1:2], euro[2:], b'!')
    emitted = []
    for token_id in ids:
        text.push(token_id)
        emitted.append(text.take())
    assert emitted == ['5 ', '', '', '€', '!']


def test_an_incomplete_character_at_the_end_becomes_a_replacement():
    text, _ = stream_of(b'ok', '€'.encode()[:2])
    text.push(0)
    text.push(1)
    assert text.take() + text.finish() == 'ok�'


def test_stop_string_over_three_tokens_is_held_back_and_its_tokens_are_trimmed():
    text, _ = stream_of(b'one', b'E', b'N', b'D!', stop=['END'])
    assert not text.push(0)
    assert text.take() == 'one'
    assert not text.push(1)
    assert not text.push(2)
    assert text.take() == ''
    assert text.push(3)
    assert text.take() + text.finish() == ''
    assert text.text == 'one'
    assert text.num_tokens == 1


def test_text_held_back_in_vain_is_released():
    text, _ = stream_of(b'aE', b'Nx', stop=['END'])
    text.push(0)
    assert text.take() == 'a'
    text.push(1)
    assert text.take() == 'ENx'


def test_a_token_partly_before_the_stop_string_is_kept():
    text, _ = stream_of(b'say', b' helloEND', stop=['END'])
    text.push(0)
    assert text.push(1)
    assert (text.text, text.num_tokens) == ('say hello', 2)


def test_the_earliest_of_several_stop_strings_wins():
    text, _ = stream_of(b'a--b||c', stop=['||', '--'])
    assert text.push(0)
    assert text.text == 'a'


def test_a_stop_string_alone_leaves_no_text_and_no_tokens():
    text, _ = stream_of(b'END', stop=['END'])
    assert text.push(0)
    assert (text.text, text.num_tokens) == ('', 0)


@pytest.mark.parametrize('seed', range(20))
def test_whatever_the_split_emitted_text_is_the_text_up_to_the_stop_string(seed):
    generator = random.Random(seed)
    whole = ''.join(generator.choice(['a', 'b', '€', '🤖', 'ab']) for _ in range(60))
    stop = ['aab', '🤖b€'][: generator.randrange(3)]
    data, pieces = whole.encode(), []
    while data:
        size = generator.randrange(1, 5)
        pieces.append(data[:size])
        data = data[size:]
    text, ids = stream_of(*pieces, stop=stop)
    emitted = ''
    for token_id in ids:
        stopped = text.push(token_id)
        emitted += text.take()
        if stopped:
            break
    emitted += text.finish()
    ends = [whole.find(item) for item in stop if item in whole]
    assert emitted == text.text == whole[:min(ends, default=len(whole))]
