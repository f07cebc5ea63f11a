# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec generate``: what it asks the runtime for, and what it prints."""

import io
import json
import signal

import pytest

from memspec_ros.records import ChatMessage, SamplingOptions


def test_streams_the_text_and_sums_up_on_stderr(memspec, spoken):
    runtime = spoken()
    code, out, err = memspec('generate', 'Is it tight?', runtime=runtime)
    assert (code, out) == (0, 'The bolt is tight.\n')
    assert err == ('4 tokens in 1.00 s; 8.0 tokens/s decoding; 2.00 committed per iteration; '
                   '2/6 draft tokens accepted (ngram); first token after 0.50 s; '
                   'ended by STOP\n')
    assert runtime.closed
    assert runtime.settings.target.model == 'some.gguf'
    assert runtime.requests[0].prompt == 'Is it tight?'


def test_quiet_prints_the_text_only(memspec):
    assert memspec('generate', 'x', '--quiet') == (0, 'The bolt is tight.\n', '')


def test_verbose_asks_for_the_load_stages(memspec, spoken):
    runtime = spoken()
    memspec('generate', 'x', runtime=runtime)
    assert runtime.verbose is False
    memspec('generate', 'x', '--verbose', runtime=runtime)
    assert runtime.verbose is True


def test_json_is_one_object_and_nothing_else(memspec):
    code, out, err = memspec('generate', 'x', '--json')
    assert (code, err) == (0, '')
    assert json.loads(out) == {
        'text': 'The bolt is tight.', 'finish_reason': 'STOP', 'error_code': 'NONE',
        'error_msg': '', 'prompt_tokens': 5, 'reused_tokens': 0, 'completion_tokens': 4,
        'tokens_per_second': 8.0, 'iterations': 2, 'drafted': 6, 'accepted': 2,
        'drafts_used': ['ngram'], 'seed_used': 7,
        'durations': {'queue_s': 0.0, 'prefill_s': 0.5, 'first_token_s': 0.5, 'decode_s': 0.5,
                      'total_s': 1.0}}


def test_every_option_reaches_the_request(memspec, spoken):
    runtime = spoken()
    memspec('generate', 'go', '--max-tokens', '9', '--temperature', '0.5', '--top-p', '0.9',
            '--top-k', '40', '--min-p', '0.1', '--repetition-penalty', '1.1', '--seed', '3',
            '--stop', 'a', '--stop', 'b', '--timeout', '2.5', '--draft-length', '4',
            '--draft', 'code', '--system', 'Be brief.', runtime=runtime)
    request = runtime.requests[0]
    assert request.sampling == SamplingOptions(temperature=0.5, top_p=0.9, top_k=40, min_p=0.1,
                                               repetition_penalty=1.1, seed=3)
    assert request.messages == (ChatMessage(role='system', content='Be brief.'),
                                ChatMessage(role='user', content='go'))
    assert (request.prompt, request.max_tokens, request.stop) == ('', 9, ('a', 'b'))
    assert (request.timeout_s, request.draft_length, request.draft_hint) == (2.5, 4, 'code')


def test_settings_come_from_file_param_and_policy(memspec, spoken):
    runtime = spoken()
    memspec('generate', 'x', '--policy', 'memspec', '--param', 'runtime.headroom_mb=1',
            '--param', 'draft.names=code,math', '--param', 'draft.ngram=false', runtime=runtime)
    settings = runtime.settings
    assert (settings.runtime.cache_capacity, settings.runtime.policy) == (3, 'memspec')
    assert settings.runtime.headroom_mb == 1.0
    assert settings.draft.names == ('code', 'math')
    assert settings.draft.ngram is False


def test_dash_reads_stdin_and_raw_is_literal(memspec, spoken, monkeypatch):
    monkeypatch.setattr('sys.stdin', io.StringIO('from a pipe'))
    runtime = spoken()
    memspec('generate', '-', '--raw', runtime=runtime)
    assert (runtime.requests[0].prompt, runtime.requests[0].raw_prompt) == ('from a pipe', True)


def test_ctrl_c_cancels_and_still_tells_what_was_done(memspec, spoken):
    handler = signal.getsignal(signal.SIGINT)
    runtime = spoken(interrupt_after=2)
    code, out, err = memspec('generate', 'x', runtime=runtime)
    assert (code, out) == (1, 'The bolt \n')
    assert err.startswith('memspec: CANCELED: interrupted by a signal\n2 tokens in')
    assert 'ended by CANCELED' in err
    assert runtime.closed
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_timeout_ends_the_goal_and_says_so(memspec, monkeypatch):
    now_s = iter([10.0, 10.5, 12.9, 13.0])
    monkeypatch.setattr('memspec_ros.cli.goal.time.monotonic', lambda: next(now_s))
    code, out, err = memspec('generate', 'x', '--timeout', '3', '--quiet')
    assert (code, out) == (1, 'The bolt \n')
    assert err == 'memspec: TIMEOUT: the timeout of 3 s has passed\n'


def test_a_refused_goal_exits_1_with_its_message(memspec, spoken):
    runtime = spoken(refusal='the prompt has 900 tokens; the context holds 512')
    code, out, err = memspec('generate', 'x', runtime=runtime)
    assert (code, out) == (1, '')
    assert err == ('memspec: CONTEXT_EXCEEDED: the prompt has 900 tokens; '
                   'the context holds 512\n')
    assert runtime.closed
    code, out, err = memspec('generate', 'x', '--json', runtime=runtime)
    assert (code, json.loads(out)['error_code']) == (1, 'CONTEXT_EXCEEDED')


@pytest.mark.parametrize(('words', 'message'), [
    (['--temperature', 'nan'], 'temperature is nan; it must be a number in [0.0, 100.0]'),
    (['--stop', ''], 'stop string 0 of 1 is empty'),
    (['--draft-length', '16'], 'draft_length is 16; it must be a number in [-1, 15]'),
    (['--raw', '--system', 'x'], '--system needs the chat template, which --raw leaves out: '
     'give one of them'),
    (['--param', 'runtime.cache_capacty=3'],
     "there is no parameter 'runtime.cache_capacty'; did you mean 'runtime.cache_capacity'?"),
    (['--param', 'runtime.cache_capacity'], "--param 'runtime.cache_capacity' must be "
     'NAME=VALUE, e.g. runtime.cache_capacity=3'),
    (['--param', 'runtime.cache_capacity=two'],
     "runtime.cache_capacity is 'two'; it must be a number (int)"),
    (['--param', 'draft.ngram=maybe'], "draft.ngram is 'maybe'; it must be true or false"),
    (['--param', 'runtime.cache_capacity=0'],
     'runtime.cache_capacity is 0; it must be in [1, 64]'),
    (['--policy', 'memspek'], "runtime.policy is 'memspek'; it must be one of general_static"),
    (['--compare', '0x1'], 'argument --compare: invalid int value'),
])
def test_a_wrong_option_exits_2_and_loads_nothing(memspec, spoken, words, message):
    runtime = spoken()
    try:
        code, out, err = memspec('generate', 'x', *words, runtime=runtime)
    except SystemExit as end:
        code, out, err = end.code, '', message
    assert (code, out) == (2, '')
    assert message in err
    assert 'Traceback' not in err
    assert runtime.settings is None


def test_an_empty_prompt_is_refused(memspec):
    code, _, err = memspec('generate', '')
    assert (code, err) == (2, 'memspec: the goal is empty: give a prompt or messages\n')
