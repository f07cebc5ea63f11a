# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The independent draft: what it proposes depends on the tokens alone, and it feeds little."""

import dataclasses

import pytest
import torch

from memspec_ros.errors import ModelFormatError
from memspec_ros.models import native_library
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.independent_decoder import (
    independent_config,
    independent_decoder,
    independent_shapes,
)
from memspec_ros.models.independent_draft import MAX_JUDGED_TOKENS, IndependentDraft
from memspec_ros.models.matrices import DenseMatrix
from memspec_ros.models.native_matrix import GrowingStorage, pack
from memspec_ros.testing.scripted_model import ScriptedContext, ScriptedTarget

CONTEXT_TOKENS = 16
BLOCK_TOKENS = 8
PROMPT_LENGTH = 5


def make_config(**changes):
    return DecoderConfig(**{
        'family': 'llama', 'vocab_size': 64, 'hidden_size': 32, 'intermediate_size': 48,
        'num_layers': 2, 'num_heads': 4, 'num_kv_heads': 2, 'head_dim': 8,
        'max_context_tokens': 64, **changes})


def random_weights(shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) * (0.3 if len(shape) > 1 else 1.0)
            for name, shape in shapes.items()}


def make_decoder(config=None, seed=0):
    config = config or make_config()
    weights = random_weights(independent_shapes(config), seed)
    return independent_decoder(config, weights, form='fp32', context_tokens=CONTEXT_TOKENS)


def make_draft(decoder=None, output_token_ids=None):
    decoder = decoder or make_decoder()
    kv_caches = tuple(decoder.make_kv_cache(context_tokens=CONTEXT_TOKENS) for _ in range(2))
    return IndependentDraft('d', decoder, kv_caches=kv_caches, context_tokens=CONTEXT_TOKENS,
                            output_token_ids=output_token_ids)


def context_of(tokens, **target):
    return ScriptedContext(tokens=list(tokens), prompt_length=PROMPT_LENGTH,
                           target=ScriptedTarget(**{'end_ids': frozenset(), **target}))


def some_tokens(length, seed=3):
    return torch.randint(0, 64, (length,),
                         generator=torch.Generator().manual_seed(seed)).tolist()


def expected_next(decoder, tokens):
    """Return the prediction by the rule of the windows, computed afresh."""
    start = max(0, len(tokens) // BLOCK_TOKENS - 1) * BLOCK_TOKENS
    kv_cache = decoder.make_kv_cache(context_tokens=CONTEXT_TOKENS)
    logits, _ = decoder.forward(torch.tensor([tokens[start:]]), kv_cache, 1)
    return int(logits[0, 0].argmax())


def expected_proposals(decoder, tokens, num_tokens):
    tokens = list(tokens)
    for _ in range(num_tokens):
        tokens.append(expected_next(decoder, tokens))
    return tokens[-num_tokens:]


class CountingDecoder:
    """Counts the tokens fed to a decoder."""

    def __init__(self, decoder):
        self._decoder = decoder
        self.widths = []

    def __getattr__(self, name):
        return getattr(self._decoder, name)

    def best_rows(self, token_ids, kv_cache, num_wanted, num_rows):
        self.widths.append(len(token_ids))
        return self._decoder.best_rows(token_ids, kv_cache, num_wanted, num_rows)


@pytest.mark.parametrize('length', [1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 25, 60])
def test_switched_in_anywhere_it_proposes_by_the_rule(length):
    decoder = make_decoder()
    tokens = some_tokens(length)
    proposed = make_draft(decoder).propose(context_of(tokens), 4)
    assert proposed == expected_proposals(decoder, tokens, 4)


def test_running_along_it_proposes_what_it_would_when_switched_in():
    """Accept a changing number of the proposals, over several blocks."""
    decoder = make_decoder()
    draft, context = make_draft(decoder), context_of(some_tokens(PROMPT_LENGTH))
    for step in range(40):
        proposed = draft.propose(context, 3)
        assert proposed == expected_proposals(decoder, context.tokens, 3)
        accepted = proposed[:step % 4]
        context.tokens += [*accepted, (step * 11) % 64]
    assert len(context.tokens) > 6 * BLOCK_TOKENS


def test_flags_tell_what_it_would_have_proposed():
    decoder = make_decoder()
    draft, context = make_draft(decoder), context_of(some_tokens(PROMPT_LENGTH))
    flags, first = [], PROMPT_LENGTH
    for step in range(24):
        proposed = draft.propose(context, 3)
        context.tokens += [*proposed[:step % 4], (step * 7) % 64]
        if step % 5 == 0:
            flags += draft.catch_up(context)
    flags += draft.catch_up(context)
    assert flags == [expected_next(decoder, context.tokens[:position]) == context.tokens[position]
                     for position in range(first, len(context.tokens))]
    assert True in flags
    assert False in flags
    assert draft.catch_up(context) == []


def test_flags_of_a_late_switch_end_with_the_last_token():
    decoder = make_decoder()
    tokens = some_tokens(30)
    for position in range(26, 30):
        tokens[position] = expected_next(decoder, tokens[:position])
    flags = make_draft(decoder).catch_up(context_of(tokens))
    assert flags == [expected_next(decoder, tokens[:position]) == tokens[position]
                     for position in range(30 - len(flags), 30)]
    assert flags[-4:] == [True] * 4


def test_the_prompt_is_not_judged():
    assert make_draft().catch_up(context_of(some_tokens(PROMPT_LENGTH))) == []


def test_flags_are_bounded():
    decoder = make_decoder(make_config(max_context_tokens=512))
    kv_caches = tuple(decoder.make_kv_cache(context_tokens=512) for _ in range(2))
    decoder = independent_decoder(decoder.config, random_weights(independent_shapes(
        decoder.config)), form='fp32', context_tokens=512)
    draft = IndependentDraft('d', decoder, kv_caches=kv_caches, context_tokens=512)
    assert len(draft.catch_up(context_of(some_tokens(200)))) == MAX_JUDGED_TOKENS


def test_after_full_acceptance_both_missing_tokens_are_fed():
    decoder = CountingDecoder(make_decoder())
    draft, context = make_draft(decoder), context_of(some_tokens(9))
    proposed = draft.propose(context, 3)
    context.tokens += [*proposed, 1]
    decoder.widths.clear()
    draft.propose(context, 3)
    assert decoder.widths == [2, 1, 1]


def test_after_a_rejection_one_token_is_fed():
    decoder = CountingDecoder(make_decoder())
    draft, context = make_draft(decoder), context_of(some_tokens(9))
    proposed = draft.propose(context, 3)
    context.tokens += [proposed[0], (proposed[1] + 1) % 64]
    decoder.widths.clear()
    draft.propose(context, 3)
    assert decoder.widths == [1, 1, 1]


def test_a_proposal_across_a_block_that_is_rejected_does_not_cost_the_old_window():
    decoder = CountingDecoder(make_decoder())
    draft, context = make_draft(decoder), context_of(some_tokens(21))
    proposed = draft.propose(context, 4)  # predicts positions 21 to 24; 24 begins a block
    assert decoder.widths == [13, 1, 1, BLOCK_TOKENS]
    context.tokens += [(proposed[0] + 1) % 64]
    decoder.widths.clear()
    draft.propose(context, 1)
    assert decoder.widths == [1]


def test_asking_twice_costs_nothing():
    decoder = CountingDecoder(make_decoder())
    draft, context = make_draft(decoder), context_of(some_tokens(9))
    first = draft.propose(context, 3)
    decoder.widths.clear()
    assert draft.propose(context, 1) == first[:1]
    assert decoder.widths == []
    assert draft.propose(context, 3) == first
    assert decoder.widths == [1, 1]


def test_reset_forgets_and_another_goal_is_noticed_without_it():
    decoder = make_decoder()
    draft = make_draft(decoder)
    draft.catch_up(context_of(some_tokens(20, seed=1)))
    other = context_of(some_tokens(18, seed=2))
    assert draft.propose(other, 3) == expected_proposals(decoder, other.tokens, 3)
    assert draft.catch_up(other) == make_draft(decoder).catch_up(other) != []
    draft.reset()
    assert draft.propose(other, 3) == expected_proposals(decoder, other.tokens, 3)


def test_an_end_token_only_ends_drafting():
    decoder = make_decoder()
    tokens = some_tokens(11)
    expected = expected_proposals(decoder, tokens, 4)
    context = context_of(tokens, end_ids=frozenset({expected[2]}))
    stop = expected.index(expected[2])
    assert make_draft(decoder).propose(context, 4) == expected[:stop]


def test_a_trimmed_head_proposes_the_tokens_of_its_rows():
    config = make_config()
    rows = torch.tensor([2, 3, 5, 7, 11, 13, 60], dtype=torch.int32)
    shapes = independent_shapes(config, head_rows=len(rows))
    weights = random_weights(shapes)
    trimmed = independent_decoder(config, weights, form='fp32', context_tokens=CONTEXT_TOKENS)
    tokens = some_tokens(10)
    proposed = make_draft(trimmed, rows).propose(context_of(tokens), 5)
    kv_cache = trimmed.make_kv_cache(context_tokens=CONTEXT_TOKENS)
    _, hidden = trimmed.forward(torch.tensor([tokens]), kv_cache, 1)
    scores = hidden[0, -1] @ weights['head'].T
    assert proposed[0] == int(rows[scores.argmax()])
    assert set(proposed) <= set(rows.tolist())


@pytest.mark.parametrize('is_packed', [False, True])
def test_borrowed_embeddings_equal_a_table_of_the_projected_ones(is_packed):
    if is_packed and not native_library.is_available():
        pytest.skip('the native library is not built')
    config = make_config()
    table = torch.randn(64, 24, generator=torch.Generator().manual_seed(5))
    weights = random_weights(independent_shapes(config, target_hidden_size=24))
    borrowed = pack(DenseMatrix(data=table), GrowingStorage()) if is_packed else table
    borrowing = independent_decoder(config, weights, form='fp32', target_embedding=borrowed,
                                    context_tokens=CONTEXT_TOKENS)
    own = independent_decoder(
        config, dict(weights, embedding=table @ weights['embedding_projection'].T)
        | {'embedding_projection': None}, form='fp32', context_tokens=CONTEXT_TOKENS)
    tokens = some_tokens(10)
    assert make_draft(borrowing).propose(context_of(tokens), 4) \
        == make_draft(own).propose(context_of(tokens), 4)
    with pytest.raises(ModelFormatError, match="borrows the target's embeddings; none were"):
        independent_decoder(config, weights, form='fp32', context_tokens=CONTEXT_TOKENS)


@pytest.mark.parametrize('target_vocab_size', [40, 64, 80])
def test_vocabularies_of_other_sizes_share_a_range(target_vocab_size):
    """Qwen2.5 7B has 152064 logits, its 0.5B 151936: the rest is padding."""
    decoder = make_decoder()
    tokens = [token % target_vocab_size for token in some_tokens(12)]
    tokens[3] = target_vocab_size - 1
    context = context_of(tokens, vocab_size=target_vocab_size)
    proposed = make_draft(decoder).propose(context, 6)
    assert len(proposed) == 6
    assert all(0 <= token < min(64, target_vocab_size) for token in proposed)


def test_architecture_survives_the_card():
    config = make_config(qkv_bias=True, tied_head=True)
    assert independent_config(dataclasses.asdict(config)) == config


@pytest.mark.parametrize(('change', 'message'), [
    ({'hiden_size': 3}, "unknown field 'hiden_size'; did you mean 'hidden_size'"),
    ({'rope': {'bace': 1.0}}, "unknown field 'bace'; did you mean 'base'"),
    ({'rope': 3}, 'rope of a draft is 3'),
    ({'num_layers': 'two'}, 'value of the wrong type'),
    ({'num_layers': 0}, 'num_layers is 0'),
])
def test_a_wrong_architecture_is_refused(change, message):
    with pytest.raises(ModelFormatError, match=message):
        independent_config({**dataclasses.asdict(make_config()), **change})


def test_a_missing_field_is_named():
    architecture = dataclasses.asdict(make_config())
    del architecture['num_heads']
    with pytest.raises(ModelFormatError, match='lacks num_heads'):
        independent_config(architecture)


def test_bias_and_tied_head():
    config = make_config(family='qwen2', qkv_bias=True, tied_head=True)
    decoder = make_decoder(config)
    tokens = some_tokens(20)
    assert make_draft(decoder).propose(context_of(tokens), 3) \
        == expected_proposals(decoder, tokens, 3)


def test_with_the_target_s_own_weights_it_is_always_right():
    decoder = make_decoder(make_config(max_context_tokens=64))
    context_tokens = 64
    big = independent_decoder(decoder.config, random_weights(independent_shapes(
        decoder.config)), form='fp32', context_tokens=context_tokens)
    kv_caches = tuple(big.make_kv_cache(context_tokens=context_tokens) for _ in range(2))
    draft = IndependentDraft('d', big, kv_caches=kv_caches, context_tokens=context_tokens)
    verifying = big.make_kv_cache(context_tokens=context_tokens)
    context = context_of(some_tokens(PROMPT_LENGTH))
    for _ in range(8):
        proposed = draft.propose(context, 3)
        fed = torch.tensor([[*context.tokens[verifying.length:], *proposed]])
        best = big.forward(fed, verifying, 4)[0][0].argmax(-1).tolist()
        assert best[:3] == proposed
        context.tokens += best
    assert all(draft.catch_up(context))
