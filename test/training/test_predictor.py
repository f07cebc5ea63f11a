# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Training predictors on traces, from files to a report."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest
import torch

from memspec_ros.errors import ConfigError, DataError
from memspec_ros.prediction.predictor_file import PredictorFile, open_predictor
from memspec_ros.replay.acceptance_table import AcceptanceTable, TracedDraft, TracedGoal
from memspec_ros.training import predictor
from memspec_ros.training.predictor_samples import (
    SampleOptions,
    context_positions,
    samples_of,
    state_features,
    text_features,
    utility,
)

DRAFTS = ('code', 'math')


def goal_of(number, rng, *, num_output=60, seed_prompt=0):
    """In even goals code is right and math is not, and the target's states tell which."""
    good, bad = (DRAFTS if number % 2 == 0 else DRAFTS[::-1])
    states = rng.normal(0.0, 0.3, (4 + num_output, 8))
    states[:, number % 2] += 1.0
    return TracedGoal(id=f'goal-{number}', domain=good, ended=False,
                      prompt_ids=(seed_prompt, number, 2, 3), output_ids=tuple(range(num_output)),
                      runs={good: rng.integers(2, 4, num_output).tolist(),
                            bad: rng.integers(0, 2, num_output).tolist(),
                            'ngram': [0] * num_output},
                      states=torch.tensor(states, dtype=torch.float16))


def trace_of(num_goals=20, *, seed=0, target='abc', **fields):
    rng = np.random.default_rng(seed)
    return AcceptanceTable(
        goals=tuple(goal_of(number, rng, seed_prompt=seed, **fields)
                    for number in range(num_goals)),
        drafts={name: TracedDraft(domain=name) for name in (*DRAFTS, 'ngram')}, steps=3,
        max_tokens=60, target=target)


def command(tmp_path, *words):
    parser = argparse.ArgumentParser()
    predictor.add_arguments(parser)
    return predictor.run(parser.parse_args([
        '--trace', str(tmp_path / 'train'), '--output', str(tmp_path / 'predictor.safetensors'),
        *words]))


@pytest.fixture
def traces(tmp_path):
    trace_of().write(tmp_path / 'train')
    trace_of(10, seed=1).write(tmp_path / 'eval')
    return tmp_path


def test_utility_is_the_mean_committed_over_the_horizon():
    options = SampleOptions(horizon_iterations=2, draft_length=2)
    assert utility([3, 9, 9, 1, 9, 0], 0, options) == (3 + 2) / 2
    assert context_positions(10, options) == [0, 4]
    assert context_positions(5, options) == []


def test_contexts_of_different_goals_have_different_groups():
    trace = trace_of(3)
    samples = samples_of(trace, DRAFTS, state_features(8, 'both'), SampleOptions(),
                         first_group=5)
    assert sorted(set(samples.groups)) == [5, 6, 7]
    assert samples.features.shape == (3 * 12, 24)
    assert (samples.best()[samples.groups == 5] == [1.0, 0.0]).all()
    assert samples.rates[0, 0] > samples.rates[0, 1]


def test_traces_that_cannot_serve_say_why():
    trace, options = trace_of(2), SampleOptions()
    features = state_features(8, 'both')
    with pytest.raises(DataError, match='unrolled for 3 steps; a draft length of 4'):
        samples_of(trace, DRAFTS, features, SampleOptions(draft_length=4))
    with pytest.raises(DataError, match='has no draft law; it has code, math, ngram'):
        samples_of(trace, ('law',), features, options)
    with pytest.raises(DataError, match='no output long enough'):
        samples_of(trace_of(2, num_output=5), DRAFTS, features, options)
    bare = TracedGoal(**{**vars(trace.goals[0]), 'states': None})
    with pytest.raises(DataError, match=r"'goal-0' has no states: trace with --keep-states"):
        features(bare, [0])


def test_text_features_are_those_of_prompt_and_recent_tokens():
    class LengthEncoder:
        width = 1

        def encode_all(self, texts):
            return [np.full(1, len(text), np.float32) for text in texts]

    trace = trace_of(1)
    features = text_features(LengthEncoder(), lambda ids: 'x' * len(ids), 8, 'both')
    assert features(trace.goals[0], [0, 4, 12])[1:].tolist() == [[4, 4], [4, 8]]
    assert np.isnan(features(trace.goals[0], [0])[0, 1])
    recent = text_features(LengthEncoder(), lambda ids: 'x' * len(ids), 8, 'recent')
    assert recent(trace.goals[0], [4]).tolist() == [[4]]


def test_the_command_trains_measures_and_reports(traces, capsys):
    report = traces / 'predictor.json'
    assert command(traces, '--eval-trace', str(traces / 'eval'), '--report', str(report),
                   '--epochs', '80') == 0
    assert 'target_state on both: top-1' in capsys.readouterr().out
    figures = json.loads(report.read_text())['target_state']
    assert set(figures) == {'both', 'prompt', 'recent'}
    assert figures['both']['top1'] > 0.9
    opened = PredictorFile.load(traces / 'predictor.safetensors')
    assert (opened.kind, opened.inputs, opened.target) == ('target_state', 'both', 'abc')
    assert opened.head.drafts == DRAFTS
    open_predictor(traces / 'predictor-recent.safetensors', drafts=DRAFTS, hidden_size=8,
                   text_of=str)


def test_the_same_command_gives_the_same_predictor(traces):
    command(traces, '--epochs', '2', '--inputs', 'both')
    first = PredictorFile.load(traces / 'predictor.safetensors')
    command(traces, '--epochs', '2', '--inputs', 'both')
    second = PredictorFile.load(traces / 'predictor.safetensors')
    assert first.note == second.note
    for name, array in first.head.tensors().items():
        assert np.array_equal(array, second.head.tensors()[name])


def test_prompts_that_were_trained_on_are_not_measured_on(traces):
    trace_of(7).write(traces / 'eval')
    with pytest.raises(DataError, match=r"7 prompts of --eval-trace .* the first is 'goal-0'"):
        command(traces, '--eval-trace', str(traces / 'eval'))


def test_traces_of_another_target_are_refused(traces):
    trace_of(7, seed=2, target='xyz').write(traces / 'eval')
    with pytest.raises(DataError, match='checksum xyz, not abc'):
        command(traces, '--eval-trace', str(traces / 'eval'))


def test_the_encoder_needs_to_know_the_tokenizer(traces, monkeypatch):
    monkeypatch.setattr(predictor, 'MiniLmEncoder', lambda: None)
    with pytest.raises(ConfigError, match='name the --target'):
        command(traces, '--kind', 'encoder')
