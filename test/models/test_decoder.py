# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The decoder against transformers on random tiny models of both families."""

from __future__ import annotations

import pytest
import torch

from memspec_ros.models.decoder import Decoder
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.matrices import DenseMatrix, Matrix
from memspec_ros.models.weights import load_weights

transformers = pytest.importorskip('transformers')

_SMALL = {'vocab_size': 101, 'hidden_size': 48, 'intermediate_size': 80,
          'num_hidden_layers': 3, 'max_position_embeddings': 256, 'rms_norm_eps': 1e-5}
_LLAMA3 = {'rope_type': 'llama3', 'factor': 4.0, 'low_freq_factor': 1.0,
           'high_freq_factor': 4.0, 'original_max_position_embeddings': 32, 'rope_theta': 500.0}
CASES = {
    'llama_tied': ('llama', {'num_attention_heads': 4, 'num_key_value_heads': 2,
                             'tie_word_embeddings': True}),
    'llama_untied': ('llama', {'num_attention_heads': 4, 'num_key_value_heads': 4,
                               'tie_word_embeddings': False}),
    'llama_head_dim': ('llama', {'num_attention_heads': 6, 'num_key_value_heads': 2,
                                 'head_dim': 16, 'tie_word_embeddings': False}),
    'llama_llama3': ('llama', {'num_attention_heads': 4, 'num_key_value_heads': 1,
                               'rope_parameters': _LLAMA3}),
    'llama_linear': ('llama', {'num_attention_heads': 4, 'num_key_value_heads': 1,
                               'rope_parameters': {'rope_type': 'linear', 'factor': 2.5,
                                                   'rope_theta': 10000.0}}),
    'qwen2_tied': ('qwen2', {'num_attention_heads': 6, 'num_key_value_heads': 2,
                             'tie_word_embeddings': True}),
    'qwen2_untied': ('qwen2', {'num_attention_heads': 4, 'num_key_value_heads': 1,
                               'tie_word_embeddings': False}),
}


class StateDict:
    """A checkpoint over a transformers model's own tensors."""

    def __init__(self, model) -> None:
        self._tensors = {name: tensor.detach() for name, tensor in model.state_dict().items()}
        self.config = DecoderConfig.from_hf(model.config.to_dict(), source='config.json')

    def matrix(self, name: str) -> Matrix:
        return DenseMatrix(data=self._tensors[name])

    def vector(self, name: str) -> torch.Tensor:
        return self._tensors[name].float()


def make_pair(case: str):
    """Return a random transformers model and our decoder of the same weights."""
    family, options = CASES[case]
    torch.manual_seed(sum(map(ord, case)))
    config = transformers.AutoConfig.for_model(family, **{**_SMALL, **options})
    model = transformers.AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation='eager').eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    checkpoint = StateDict(model)
    return model, Decoder(checkpoint.config, load_weights(checkpoint, dtype='fp32'))


def random_tokens(batch: int, width: int) -> torch.Tensor:
    return torch.randint(_SMALL['vocab_size'], (batch, width),
                         generator=torch.Generator().manual_seed(width))


@torch.inference_mode()
def reference(model, token_ids: torch.Tensor) -> torch.Tensor:
    return model(token_ids, use_cache=False).logits


@pytest.mark.parametrize('case', CASES)
def test_logits_equal_transformers(case: str) -> None:
    model, decoder = make_pair(case)
    token_ids = random_tokens(2, 70)
    logits, _ = decoder.forward(token_ids, decoder.make_kv_cache(context_tokens=70, batch=2), 70)
    torch.testing.assert_close(logits, reference(model, token_ids), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('case', ['llama_tied', 'qwen2_untied'])
def test_passes_of_any_width_continue_each_other(case: str) -> None:
    model, decoder = make_pair(case)
    token_ids = random_tokens(1, 40)
    kv_cache = decoder.make_kv_cache(context_tokens=40)
    parts = []
    for start, stop in ((0, 9), (9, 10), (10, 13), (13, 40)):
        logits, _ = decoder.forward(token_ids[:, start:stop], kv_cache, stop - start)
        parts.append(logits)
    torch.testing.assert_close(torch.cat(parts, 1), reference(model, token_ids),
                               rtol=1e-4, atol=1e-4)


def test_rollback_forgets_what_was_rejected() -> None:
    model, decoder = make_pair('llama_tied')
    token_ids = random_tokens(1, 20)
    kv_cache = decoder.make_kv_cache(context_tokens=32)
    decoder.forward(token_ids[:, :12], kv_cache, 0)
    decoder.forward(token_ids[:, :7].flip(1), kv_cache, 7)
    kv_cache.rollback(12)
    logits, _ = decoder.forward(token_ids[:, 12:], kv_cache, 1)
    torch.testing.assert_close(logits, reference(model, token_ids)[:, -1:], rtol=1e-4, atol=1e-4)


def test_num_logits_and_hidden_states() -> None:
    _, decoder = make_pair('llama_untied')
    token_ids = random_tokens(1, 6)
    logits, hidden = decoder.forward(token_ids, decoder.make_kv_cache(context_tokens=8), 2)
    assert logits.shape == (1, 2, 101)
    assert hidden.shape == (1, 6, 48)
    torch.testing.assert_close(decoder.logits(hidden[:, -2:]), logits)
    none, _ = decoder.forward(token_ids, decoder.make_kv_cache(context_tokens=8), 0)
    assert none.shape == (1, 0, 101)


def test_rows_of_a_batch_have_their_own_lengths() -> None:
    model, decoder = make_pair('llama_tied')
    lengths = [5, 11, 8]
    token_ids = random_tokens(3, 20)
    kv_cache = decoder.make_kv_cache(context_tokens=24, batch=3)
    decoder.forward(token_ids[:, :11], kv_cache, 0)
    kv_cache.rollback_rows(torch.tensor(lengths))
    for step in range(6):
        column = torch.stack([token_ids[row, n + step] for row, n in enumerate(lengths)])
        logits, _ = decoder.forward(column[:, None], kv_cache, 1)
        for row, length in enumerate(lengths):
            expected = reference(model, token_ids[row:row + 1, :length + step + 1])[:, -1]
            torch.testing.assert_close(logits[row], expected, rtol=1e-4, atol=1e-4)


def test_a_row_does_not_see_the_others() -> None:
    _, decoder = make_pair('qwen2_tied')
    token_ids = random_tokens(2, 12)
    other = token_ids.clone()
    other[1] = other[1].flip(0)
    first, _ = decoder.forward(token_ids, decoder.make_kv_cache(context_tokens=12, batch=2), 12)
    second, _ = decoder.forward(other, decoder.make_kv_cache(context_tokens=12, batch=2), 12)
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])
