# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The head's arithmetic, its training on a solvable problem, and its figures."""

from __future__ import annotations

import numpy as np
import pytest

from memspec_ros.errors import DataError
from memspec_ros.prediction.fit import FitOptions, Samples, fit_head, measure_head, merge
from memspec_ros.prediction.ranking_head import RankingHead

DRAFTS = ('general', 'code', 'math')


def head_of(weight_1, weight_2, num_features=2):
    return RankingHead(drafts=DRAFTS, mean=np.zeros(num_features, np.float32),
                       scale=np.ones(num_features, np.float32),
                       weight_1=np.asarray(weight_1, np.float32),
                       bias_1=np.zeros(len(weight_1[0]), np.float32),
                       weight_2=np.asarray(weight_2, np.float32),
                       bias_2=np.zeros(6, np.float32))


def samples_of(num_contexts=600, seed=0):
    """The first three features say which draft is good, in contexts of 30 prompts."""
    rng = np.random.default_rng(seed)
    good = rng.integers(0, 3, num_contexts)
    features = rng.normal(0.0, 0.3, (num_contexts, 8)).astype(np.float32)
    features[np.arange(num_contexts), good] += 2.0
    rates = np.full((num_contexts, 3), 0.5, np.float32)
    rates[np.arange(num_contexts), good] = 0.9
    return Samples(drafts=DRAFTS, features=features, utilities=1.0 + rates, rates=rates,
                   groups=rng.integers(0, 30, num_contexts))


def test_scores_are_a_softmax_and_rates_a_logistic():
    head = head_of([[1.0], [0.0]], [[1.0, 2.0, 0.0, 0.0, 1.0, -1.0]])
    prediction = head.predict(np.array([2.0, 5.0], np.float32))
    powers = np.exp([2.0, 4.0, 0.0])
    assert list(prediction.scores.values()) == pytest.approx(list(powers / powers.sum()))
    _, rates = head.outputs(np.array([2.0, 5.0], np.float32))
    assert list(rates) == pytest.approx(
        [0.5, 1 / (1 + np.exp(-2.0)), 1 / (1 + np.exp(2.0))])


def test_unknown_features_stand_for_their_mean():
    head = head_of([[1.0], [1.0]], [[1.0, 2.0, 0.0, 0.0, 1.0, -1.0]])
    unknown = head.predict(np.array([1.0, np.nan], np.float32))
    assert unknown == head.predict(np.array([1.0, 0.0], np.float32))


def test_shapes_that_do_not_go_together_are_refused():
    with pytest.raises(DataError, match=r'weight_2 has shape \(1, 4\); \(1, 6\) goes with 3'):
        head_of([[1.0], [0.0]], [[1.0, 2.0, 0.0, 0.0]])


def test_training_solves_a_solvable_problem():
    head = fit_head(samples_of(), FitOptions(num_epochs=20, batch_size=64))
    quality = measure_head(head, samples_of(seed=1))
    assert quality.top1 > 0.97
    assert quality.top2 > 0.99
    assert quality.kept_utility > 0.99
    assert quality.rate_error < 0.1
    assert np.trace(quality.confusion) > 0.97 * np.sum(quality.confusion)


def test_training_is_deterministic():
    first, second = (fit_head(samples_of(), FitOptions(num_epochs=2)) for _ in range(2))
    assert np.array_equal(first.weight_1, second.weight_1)


def test_ties_count_as_best_for_each_of_them():
    samples = Samples(drafts=DRAFTS, features=np.zeros((1, 2), np.float32),
                      utilities=np.array([[2.0, 2.0, 1.0]]), rates=np.zeros((1, 3), np.float32),
                      groups=np.zeros(1, np.int64))
    assert samples.best().tolist() == [[0.5, 0.5, 0.0]]
    for outputs, top1, top2 in (([0, 1, 0], 1.0, 1.0), ([1, 0, 0], 1.0, 1.0),
                                ([0, 0, 1], 0.0, 1.0)):
        head = head_of([[0.0], [0.0]], [[0.0] * 6])
        head = RankingHead(**{**vars(head), 'bias_2': np.array([*outputs, 0, 0, 0], np.float32)})
        quality = measure_head(head, samples)
        assert (quality.top1, quality.top2) == (top1, top2)


def test_samples_that_do_not_go_together_are_refused():
    samples = samples_of()
    with pytest.raises(DataError, match=r'600 features.*for 2 drafts'):
        Samples(**{**vars(samples), 'drafts': ('general', 'code')})
    with pytest.raises(DataError, match='samples of the same drafts'):
        merge([samples, Samples(**{**vars(samples), 'drafts': ('a', 'b', 'c')})])
    assert len(merge([samples, samples]).features) == 1200
    with pytest.raises(DataError, match='no contexts'):
        fit_head(samples.select(np.zeros(600, bool)))
