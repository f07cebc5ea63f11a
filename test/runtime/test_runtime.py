# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The runtime facade: what goals are refused, how they end, and that the next one is served."""

import itertools

import pytest

from memspec_ros.config import Settings
from memspec_ros.errors import ErrorCode, RequestError
from memspec_ros.prediction.beside import PredictorBeside
from memspec_ros.prediction.predictor import UniformPredictor
from memspec_ros.records import (
    FinishReason,
    GoalState,
    Request,
    Result,
    RuntimeInfo,
    SamplingOptions,
)
from memspec_ros.runtime.assembly import Assembly
from memspec_ros.runtime.controller import Controller
from memspec_ros.runtime.cost_model import CostModel
from memspec_ros.runtime.draft_cache import DraftCache
from memspec_ros.runtime.loader import ThreadLoader
from memspec_ros.runtime.policies.static import StaticDraft
from memspec_ros.runtime.runtime import MemSpecRuntime
from memspec_ros.testing.scripted_model import ScriptedDraft, ScriptedTarget


class LetterTokenizer:
    """One token per letter; a chat is its turns' letters after a 'z'."""

    def encode(self, text):
        return [ord(letter) - 96 for letter in text]

    encode_raw = encode

    def encode_chat(self, messages):
        return self.encode('z' + ''.join(message.content for message in messages))

    def token_bytes(self, token_id):
        return bytes([96 + token_id])


class Ranked(StaticDraft):
    """Runs the scripted draft, which needs no slot."""

    def plan(self, context):
        assert context.candidates == ()
        return super().plan(context)


def open_runtime(**changes):
    on_extend = changes.pop('on_extend', None)
    predictor = changes.pop('predictor', None)
    settings = Settings.from_parameters(
        {'target.prefill_chunk_tokens': 4, 'server.default_max_tokens': 12, **changes})
    target = ScriptedTarget(vocab_size=27, context_tokens=40, on_extend=on_extend)
    draft = ScriptedDraft('letters', rule=target.rule, vocab_size=27,
                          agrees=lambda position: position % 4)
    loader = ThreadLoader({})
    draft_cache = DraftCache(drafts=(), loader=loader, num_slots=1, clock=lambda: 0.0)
    controller = Controller(
        settings=settings.runtime, draft_cache=draft_cache,
        cost_model=CostModel(max_draft_length=4), make_policy=lambda _: Ranked(''),
        always_resident=('letters', ''), clock=itertools.count().__next__)
    return MemSpecRuntime(Assembly(
        target=target, tokenizer=LetterTokenizer(), drafts={'letters': draft},
        draft_names=('letters',), draft_cache=draft_cache, loader=loader, controller=controller,
        predictor=predictor, info=RuntimeInfo()), settings)


@pytest.fixture
def runtime():
    opened = open_runtime()
    yield opened
    opened.close()


def generate(runtime, request=None, **options):
    request = request or Request(prompt='hello', draft_length=3, **options)
    progress = []
    result = runtime.generate(runtime.prepare(request), on_progress=progress.append)
    return result, progress


def test_closing_ends_a_predictor_that_runs_beside():
    predictor = PredictorBeside(UniformPredictor(['letters']))
    assert predictor.is_alive
    open_runtime(predictor=predictor).close()
    assert not predictor.is_alive


def refusal_of(runtime, **options):
    with pytest.raises(RequestError) as caught:
        runtime.prepare(Request(**options))
    return caught.value.code, str(caught.value)


def test_a_prompt_beyond_the_context_is_refused_with_both_numbers(runtime):
    code, message = refusal_of(runtime, prompt='a' * 50)
    assert code is ErrorCode.CONTEXT_EXCEEDED
    assert '51 tokens' in message
    assert 'context of 40' in message


def test_more_tokens_than_the_context_leaves_are_refused_with_the_numbers(runtime):
    code, message = refusal_of(runtime, prompt='abcd', max_tokens=36)
    assert code is ErrorCode.CONTEXT_EXCEEDED
    assert 'max_tokens is 36' in message
    assert message.endswith('leaves 35')


def test_an_unknown_draft_is_refused_with_the_nearest_name(runtime):
    code, message = refusal_of(runtime, prompt='a', draft_hint='leters')
    assert code is ErrorCode.UNKNOWN_DRAFT
    assert "did you mean 'letters'?" in message


def test_the_deltas_join_to_the_text_and_the_counts_agree(runtime):
    result, progress = generate(runtime)
    assert ''.join(step.delta_text for step in progress) == result.text
    assert [step.state for step in progress[:2]] == [GoalState.PREFILL, GoalState.DECODE]
    assert result.finish_reason is FinishReason.LENGTH
    assert result.completion_tokens == len(result.text) == len(result.token_ids) == 12
    assert result.prompt_tokens == 6
    assert 0 < result.accepted < result.drafted
    assert result.completion_tokens == result.accepted + result.iterations
    assert result.drafts_used == ('letters',)
    durations = result.durations
    assert durations.prefill_s + durations.decode_s == pytest.approx(durations.total_s)
    assert durations.prefill_s <= durations.first_token_s <= durations.total_s


def test_where_the_context_is_full_the_answer_ends_with_context():
    runtime = open_runtime(**{'server.default_max_tokens': 100})
    result, _ = generate(runtime)
    assert result.finish_reason is FinishReason.CONTEXT
    assert result.prompt_tokens + result.completion_tokens == 40
    runtime.close()


def test_a_fresh_seed_is_reported_and_repeats_the_answer(runtime):
    first, _ = generate(runtime, sampling=SamplingOptions(temperature=5.0))
    again, _ = generate(runtime, sampling=SamplingOptions(temperature=5.0, seed=first.seed_used))
    other, _ = generate(runtime, sampling=SamplingOptions(temperature=5.0))
    assert again.text == first.text
    assert other.text != first.text


@pytest.mark.parametrize(('reason', 'code'), [
    (FinishReason.CANCELED, ErrorCode.CANCELED), (FinishReason.TIMEOUT, ErrorCode.TIMEOUT)])
@pytest.mark.parametrize('num_steps', [0, 1, 2, 3, 5])
def test_a_goal_stops_between_passes_with_what_it_has(reason, code, num_steps):
    """Steps 0 to 3 are in prefill (10 of 11 tokens, in three chunks), 5 is in decode."""
    runtime = open_runtime()
    asked = iter([None] * num_steps + [reason])
    result = runtime.generate(runtime.prepare(Request(prompt='abcdefghij', draft_length=0)),
                              should_stop=asked.__next__)
    assert (result.finish_reason, result.error_code) == (reason, code)
    assert result.completion_tokens == max(0, num_steps - 3)
    assert result.error_msg == f'{reason.name.lower()} after {result.completion_tokens} tokens'
    whole, _ = generate(runtime, Request(prompt='abcdefghij', draft_length=0))
    assert whole.text.startswith(result.text)
    assert whole.finish_reason is FinishReason.LENGTH
    runtime.close()


@pytest.mark.parametrize(('failure', 'code'), [
    (RuntimeError('the kernel fell over'), ErrorCode.INTERNAL),
    (MemoryError('no more'), ErrorCode.OUT_OF_MEMORY),
    (RuntimeError('NVML_SUCCESS == r INTERNAL ASSERT FAILED'), ErrorCode.OUT_OF_MEMORY)])
def test_a_failing_pass_fails_the_goal_and_the_next_is_served(failure, code):
    widths = []

    def fail_in_the_fourth_pass(width):
        widths.append(width)
        if len(widths) == 4:
            raise failure

    runtime = open_runtime(on_extend=fail_in_the_fourth_pass)
    result, progress = generate(runtime)
    assert (result.finish_reason, result.error_code) == (FinishReason.ERROR, code)
    assert str(failure) in result.error_msg
    assert ''.join(step.delta_text for step in progress) == result.text
    following, _ = generate(runtime)
    assert following.finish_reason is FinishReason.LENGTH
    assert following.reused_tokens == 0
    assert following.text.startswith(result.text)
    runtime.close()


def test_a_shared_prompt_is_reused_until_reset(runtime):
    first, _ = generate(runtime)
    second, _ = generate(runtime)
    runtime.reset()
    third, _ = generate(runtime)
    assert [first.reused_tokens, second.reused_tokens, third.reused_tokens] == [0, 5, 0]
    assert first.text == second.text == third.text


def test_dynamic_settings_reach_the_next_goal(runtime):
    runtime.apply(Settings.from_parameters({'server.default_max_tokens': 3}))
    assert generate(runtime)[0].completion_tokens == 3


def in_turns(runtime, request, between, num_iterations=2):
    """Answer a request, interrupted again and again, with another goal between its turns."""
    work, progress, num_turns = runtime.prepare(request), [], 0
    while not isinstance(work, Result):
        if num_turns:
            between()
        num_turns += 1
        until = len(progress) + num_iterations + 1  # the first progress of a turn is its prefill's
        work = runtime.advance(work, on_progress=progress.append,
                               should_yield=lambda until=until: len(progress) >= until)
    return work, progress, num_turns


@pytest.mark.parametrize('num_iterations', [1, 2])
@pytest.mark.parametrize('options', [{}, {'temperature': 5.0, 'seed': 3},
                                     {'temperature': 2.0, 'seed': 4, 'repetition_penalty': 1.3}])
def test_an_interrupted_goal_gives_the_answer_of_an_uninterrupted_one(
        runtime, options, num_iterations):
    request = Request(prompt='hello', draft_length=3, sampling=SamplingOptions(**options))
    whole, _ = generate(runtime, request)
    result, progress, num_turns = in_turns(
        runtime, request, lambda: generate(runtime, Request(prompt='other')), num_iterations)
    assert num_turns >= 2
    assert (result.token_ids, result.text) == (whole.token_ids, whole.text)
    assert ''.join(step.delta_text for step in progress) == whole.text
    assert (result.finish_reason, result.prompt_tokens) == (whole.finish_reason, 6)
    assert result.completion_tokens == result.accepted + result.iterations
    tokens = [step.completion_tokens for step in progress]
    assert tokens == sorted(tokens)


def test_what_an_interrupted_goal_has_is_in_the_kv_cache_when_it_goes_on():
    fed = []
    own = open_runtime(on_extend=fed.append)
    in_turns(own, Request(prompt='hello', draft_length=0), lambda: fed.append('|'))
    # After an interruption without another goal, only the last token is fed again.
    assert all(width == 1 for width in fed[fed.index('|') + 1:] if width != '|')
    own.close()


def test_an_interrupted_goal_may_be_ended_as_it_is(runtime):
    whole, _ = generate(runtime)
    asked = iter([False] * 4 + [True])
    work = runtime.advance(runtime.prepare(Request(prompt='hello', draft_length=0)),
                           should_yield=asked.__next__)
    assert work.prompt_tokens == 6
    result = work.end(FinishReason.CANCELED, ErrorCode.CANCELED, 'enough')
    assert (result.finish_reason, result.error_code, result.error_msg) == (
        FinishReason.CANCELED, ErrorCode.CANCELED, 'enough')
    assert 0 < result.completion_tokens == len(result.text) < whole.completion_tokens
    assert whole.text.startswith(result.text)


def test_a_draft_hint_is_taken_in_the_first_turn_only(runtime):
    prepared = runtime.prepare(Request(prompt='hello', draft_hint='letters'))
    work = runtime.advance(prepared, should_yield=iter([False] * 3 + [True]).__next__)
    assert work.run.draft_hint == 'letters'
    work.run.begin_turn()
    assert work.run.draft_hint == ''
