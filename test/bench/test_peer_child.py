# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The peers' side: the protocol with a stand-in for llama.cpp, and transformers for real."""

from __future__ import annotations

import importlib.util

import pytest

from memspec_ros.bench.peer_process import PeerOrder, PeerProcess
from memspec_ros.errors import MemSpecError
from memspec_ros.testing.model_files import byte_tokens, write_folder
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, tiny_config

# Of llama-cpp-python's interface what the child uses; the next token is the last one plus one.
LLAMA_CPP = """
import ctypes
print('a banner on stdout')
__version__ = '0.0'
SIZE = 100
class _Context:
    ctx = None
    def kv_cache_clear(self): pass
    def decode(self, batch): _Context.last = batch.tokens[-1]
class _Batch:
    def set_batch(self, tokens, n_past, logits_all): self.tokens = tokens; Llama.past = n_past
class Llama:
    past = 0
    def __init__(self, model_path, draft_model, **options):
        self._ctx, self._batch, self.draft, self.seen = _Context(), _Batch(), draft_model, []
    def n_vocab(self): return SIZE
    def reset(self): self.seen = []
    def eval(self, tokens): self.seen += tokens
    def generate(self, tokens, **options):
        assert self.seen == tokens[:-1] and self.draft is not None
        while True:
            tokens = [*tokens, tokens[-1] + 1]
            yield tokens[-1]
def llama_get_logits_ith(context, index):
    row = (ctypes.c_float * SIZE)()
    row[_Context.last + 1] = 1.0
    return ctypes.cast(row, ctypes.POINTER(ctypes.c_float))
"""
DRAFT = """
class LlamaPromptLookupDecoding:
    def __init__(self, num_pred_tokens): self.num_pred_tokens = num_pred_tokens
"""


def order(kind, model, **more):
    return PeerOrder(kind=kind, model=str(model), context_tokens=64, num_threads=1,
                     end_ids=(50,), **more)


@pytest.fixture
def fake_llama_cpp(tmp_path, monkeypatch):
    package = tmp_path / 'llama_cpp'
    package.mkdir()
    (package / '__init__.py').write_text(LLAMA_CPP, encoding='utf-8')
    (package / 'llama_speculative.py').write_text(DRAFT, encoding='utf-8')
    monkeypatch.setenv('PYTHONPATH', str(tmp_path))


@pytest.mark.usefixtures('fake_llama_cpp')
@pytest.mark.parametrize('look_up_tokens', [0, 2])
def test_tokens_are_counted_as_they_are_emitted_and_the_end_token_is_none(look_up_tokens):
    peer = PeerProcess(order('llama_cpp', 'x.gguf', look_up_tokens=look_up_tokens))
    assert peer.about == {'llama_cpp_python': '0.0', 'dtype': 'as in the file'}
    answer = peer.generate([7, 8, 9], 4)
    assert answer.tokens == (10, 11, 12, 13)
    assert 0 <= answer.prefill_s <= answer.first_token_s <= answer.prefill_s + answer.decode_s
    assert answer.peak_rss_bytes > 1e6
    assert peer.generate([47], 9).tokens == (48, 49)
    with pytest.raises(MemSpecError, match='TypeError'):
        peer.generate([None], 4)
    assert peer.generate([20], 2).tokens == (21, 22)
    peer.close()


@pytest.mark.skipif(importlib.util.find_spec('transformers') is None,
                    reason='needs transformers')
def test_transformers_decodes_a_folder(tmp_path):
    write_folder(tmp_path / 'model', RandomCheckpoint(tiny_config(
        vocab_size=len(byte_tokens()), max_context_tokens=64)))
    peer = PeerProcess(order('transformers', tmp_path / 'model', look_up_tokens=3))
    assert peer.about['dtype'] in ('float32', 'bfloat16')
    answer = peer.generate([5, 6, 7, 5, 6], 6)
    assert 0 < len(answer.tokens) <= 6
    assert answer.prefill_s < answer.first_token_s <= answer.prefill_s + answer.decode_s
    peer.close()
