# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The target's token: greedy, sampled, filtered, penalised; and that speculation is lossless."""

import pytest
import torch

from memspec_ros.decoding.token_choice import TokenChoice, count_agreeing, uniform
from memspec_ros.records import SamplingOptions


def choice_of(seed=0, **options):
    return TokenChoice(SamplingOptions(**options), seed)


def one(choice, row, tokens=(0,)):
    return choice.choose(torch.tensor([row]), list(tokens), [])[0]


def test_greedy_takes_proposals_while_they_are_the_argmax_and_then_its_own():
    logits = torch.eye(4)[[2, 1, 3]]
    assert choice_of().choose(logits, [0], [2, 1]) == [2, 1, 3]
    assert choice_of().choose(logits, [0], [2, 0]) == [2, 1]
    assert choice_of().choose(logits, [0], [3, 1]) == [2]


def test_count_agreeing_stops_at_the_first_mismatch():
    assert count_agreeing([5, 6, 7], [5, 9]) == 1
    assert count_agreeing([5, 6, 7], [5, 6]) == 2
    assert count_agreeing([5], []) == 0


def test_top_k_one_is_greedy():
    assert one(choice_of(temperature=5.0, top_k=1), [0.0, 3.0, 1.0]) == 1


@pytest.mark.parametrize(('options', 'allowed'), [
    ({'top_k': 2}, {1, 3}),
    ({'top_p': 0.6}, {1}),
    ({'top_p': 0.7}, {1, 3}),
    ({'min_p': 0.2}, {1, 3}),
    ({'top_k': 3, 'min_p': 0.2}, {1, 3}),
    ({'top_p': 0.0}, {1}),
])
def test_filters_leave_exactly_the_tokens_they_should(options, allowed):
    row = torch.log(torch.tensor([0.05, 0.65, 0.10, 0.20])).tolist()
    seen = {one(choice_of(seed, temperature=1.0, **options), row) for seed in range(400)}
    assert seen == allowed


def test_repetition_penalty_sees_the_hypothetical_prefix_of_each_row():
    """After proposal 1 is accepted it is penalised in the next row, and only there."""
    logits = torch.tensor([[0.0, 2.0, 1.5], [0.0, 2.0, 1.5]])
    assert choice_of(repetition_penalty=1.5).choose(logits, [0], [1]) == [1, 2]
    assert choice_of(repetition_penalty=1.5).choose(logits, [0], [2]) == [1]


def test_a_penalty_makes_negative_logits_smaller():
    assert one(choice_of(repetition_penalty=2.0), [-1.0, -1.5], tokens=[0]) == 1


def test_uniform_is_uniform_and_differs_by_seed_and_position():
    values = torch.tensor([uniform(7, position) for position in range(20_000)])
    counts = torch.histc(values, bins=20, min=0, max=1)
    chi_square = float(((counts - 1000) ** 2 / 1000).sum())
    assert chi_square < 43.8  # 99.9 % quantile at 19 degrees of freedom
    assert len({uniform(seed, position) for seed in range(50) for position in range(50)}) == 2500


def markov_target(vocab=5):
    table = torch.randn(vocab, vocab, generator=torch.Generator().manual_seed(3))
    return lambda tokens: table[tokens[-1]]


def sample_sequence(target, seed, length, propose):
    """Decode with proposals from ``propose(tokens)``; direct sampling when it gives none."""
    choice = choice_of(seed, temperature=0.8)
    tokens = [0]
    while len(tokens) <= length:
        proposals = propose(tokens)
        rows = [target([*tokens, *proposals[:j]]) for j in range(len(proposals) + 1)]
        tokens += choice.choose(torch.stack(rows), tokens, proposals)
    return tokens[1:length + 1]


@pytest.mark.parametrize('first_seed', [0, 10_000, 20_000])
def test_speculative_samples_have_the_targets_distribution(first_seed):
    """3,000 pairs of tokens against the exact probabilities; bound: the 99.9 % quantile of
    chi-square at 24 degrees of freedom, with the joint distribution worked out by hand."""
    target, vocab, runs = markov_target(), 5, 3000
    counts = torch.zeros(vocab, vocab)
    for seed in range(first_seed, first_seed + runs):
        first, second = sample_sequence(target, seed, 2, lambda tokens: [(tokens[-1] + 1) % 5, 2])
        counts[first, second] += 1
    start = torch.softmax(target([0]) / 0.8, -1)
    then = torch.stack([torch.softmax(target([token]) / 0.8, -1) for token in range(vocab)])
    expected = runs * start[:, None] * then
    assert float(((counts - expected) ** 2 / expected).sum()) < 51.2


def test_with_one_seed_the_sample_is_the_same_whatever_the_draft():
    target = markov_target()
    plain = sample_sequence(target, 11, 40, lambda _: [])
    assert plain == sample_sequence(target, 11, 40, lambda _: [1, 2, 3])
    assert plain == sample_sequence(target, 11, 40, lambda tokens: [(tokens[-1] * 3) % 5] * 6)
