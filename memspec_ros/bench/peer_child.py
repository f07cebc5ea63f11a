# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A peer in a process of its own, with whatever Python has it; run as a script.

Line by line of JSON: an order comes in (first how to open the model, then goals), an answer goes
out. Nothing of memspec_ros is imported, so that the other Python needs nothing of ours. Tokens
go both ways as ids and are counted as they are emitted, without the end token.

The prompt but for its last token is processed first (``prefill_s``); what follows is decoding,
as in our own runtime.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

Answer = dict[str, Any]


class LlamaCpp:
    """llama.cpp through llama-cpp-python: plain over its low-level API, or prompt look-up.

    The high-level loop costs plain decoding a few percent, so it is not used for it.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self._api = importlib.import_module('llama_cpp')
        self._numpy = importlib.import_module('numpy')
        self._end_ids = frozenset(order['end_ids'])
        self._num_look_up = order['look_up_tokens']
        threads = order['num_threads']
        self._model = self._api.Llama(
            model_path=order['model'], n_ctx=order['context_tokens'], n_threads=threads,
            n_threads_batch=threads, verbose=False, draft_model=self._draft())

    def about(self) -> Answer:
        """Return version and form."""
        return {'llama_cpp_python': self._api.__version__, 'dtype': 'as in the file'}

    def generate(self, prompt: Sequence[int], max_tokens: int) -> Answer:
        """Decode greedily."""
        self._model.reset()
        self._model._ctx.kv_cache_clear()
        started_s = time.perf_counter()
        if len(prompt) > 1:
            self._model.eval(prompt[:-1])
        prefilled_s = time.perf_counter()
        emit = _Emission(self._end_ids, max_tokens, prefilled_s)
        (self._look_up if self._num_look_up else self._plain)(prompt, emit)
        return emit.answer(prefilled_s - started_s)

    def _draft(self) -> Any:
        if not self._num_look_up:
            return None
        module = importlib.import_module('llama_cpp.llama_speculative')
        return module.LlamaPromptLookupDecoding(num_pred_tokens=self._num_look_up)

    def _plain(self, prompt: Sequence[int], emit: _Emission) -> None:
        api, context = self._api, self._model._ctx.ctx
        size = self._model.n_vocab()
        token, position = prompt[-1], len(prompt) - 1
        batch = self._model._batch
        while True:
            batch.set_batch([token], n_past=position, logits_all=False)
            self._model._ctx.decode(batch)
            row = self._numpy.ctypeslib.as_array(
                api.llama_get_logits_ith(context, -1), shape=(size,))
            token, position = int(row.argmax()), position + 1
            if not emit(token):
                return

    def _look_up(self, prompt: Sequence[int], emit: _Emission) -> None:
        # With the first tokens evaluated already, the loop takes up their state.
        for token in self._model.generate(prompt, top_k=1, temp=0.0, repeat_penalty=1.0):
            if not emit(int(token)):
                return


class Transformers:
    """transformers: generate, with prompt look-up, or assisted by a smaller model."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._torch = importlib.import_module('torch')
        self._api = importlib.import_module('transformers')
        self._torch.set_num_threads(order['num_threads'])
        self._end_ids = order['end_ids']
        self._model = self._open(order['model'])
        self._options: dict[str, Any] = {}
        if order['look_up_tokens']:
            self._options['prompt_lookup_num_tokens'] = order['look_up_tokens']
        if order['assistant']:
            self._options['assistant_model'] = self._open(order['assistant'])
        self._dtype = self._better_dtype()

    def about(self) -> Answer:
        """Return version and form."""
        return {'transformers': self._api.__version__, 'torch': self._torch.__version__,
                'dtype': self._dtype}

    def generate(self, prompt: Sequence[int], max_tokens: int) -> Answer:
        """Decode greedily."""
        torch = self._torch
        ids = torch.tensor([list(prompt)])
        key_values = self._api.DynamicCache(config=self._model.config)
        with torch.inference_mode():
            started_s = time.perf_counter()
            if len(prompt) > 1:
                self._model(input_ids=ids[:, :-1], past_key_values=key_values, use_cache=True,
                            logits_to_keep=1)
            prefilled_s = time.perf_counter()
            emit = _Emission(frozenset(self._end_ids), max_tokens, prefilled_s)
            output = self._model.generate(
                ids, attention_mask=torch.ones_like(ids), past_key_values=key_values,
                max_new_tokens=max_tokens, do_sample=False, eos_token_id=self._end_ids,
                pad_token_id=self._end_ids[0], stopping_criteria=[self._note_step(emit)],
                **self._options)
        emit.note_end()
        for token in output[0, len(prompt):].tolist():
            if not emit(token):
                break
        return emit.answer(prefilled_s - started_s)

    def _note_step(self, emit: _Emission) -> Callable[..., Any]:
        """Return a criterion that stops nothing and notes when the first step was done."""
        def criterion(input_ids: Any, _scores: Any, **_options: Any) -> Any:
            emit.note_first()
            return self._torch.zeros(input_ids.shape[0], dtype=self._torch.bool)
        return criterion

    def _open(self, model: str) -> Any:
        folder, file = os.path.split(model)
        options = {'gguf_file': file} if file.endswith('.gguf') else {}
        return self._api.AutoModelForCausalLM.from_pretrained(
            folder if options else model, dtype=self._torch.float32, **options).eval()

    def _better_dtype(self) -> str:
        """Keep the dtype that decodes faster here."""
        seconds: dict[str, float] = {}
        for name in ('float32', 'bfloat16'):
            self._convert(name)
            seconds[name] = min(self._step_s() for _ in range(3))
        best = min(seconds, key=lambda name: seconds[name])
        self._convert(best)
        gc.collect()
        return best

    def _convert(self, name: str) -> None:
        for model in (self._model, self._options.get('assistant_model')):
            if model is not None:
                model.to(getattr(self._torch, name))

    def _step_s(self) -> float:
        with self._torch.inference_mode():
            started_s = time.perf_counter()
            self._model(input_ids=self._torch.tensor([[1]]))
            return time.perf_counter() - started_s


class _Emission:
    """Collects tokens until an end token or the limit."""

    def __init__(self, end_ids: frozenset[int], max_tokens: int, started_s: float) -> None:
        self._end_ids = end_ids
        self._max_tokens = max_tokens
        self._started_s = started_s
        self._first_s = 0.0
        self._ended_s = 0.0
        self._tokens: list[int] = []

    def note_first(self) -> None:
        """Note that the first token is known, if none was yet."""
        self._first_s = self._first_s or time.perf_counter()

    def note_end(self) -> None:
        """Note that all tokens are known, where they come all at once."""
        self._ended_s = time.perf_counter()

    def __call__(self, token: int) -> bool:
        """Take a token; whether more are wanted."""
        self.note_first()
        if token in self._end_ids:
            return False
        self._tokens.append(token)
        return len(self._tokens) < self._max_tokens

    def answer(self, prefill_s: float) -> Answer:
        """Return tokens and times."""
        ended_s = self._ended_s or time.perf_counter()
        return {'tokens': self._tokens, 'prefill_s': prefill_s,
                'first_token_s': prefill_s + (self._first_s or ended_s) - self._started_s,
                'decode_s': ended_s - self._started_s, 'cpu_s': time.process_time(),
                'peak_rss_bytes': peak_rss_bytes()}


def peak_rss_bytes() -> int:
    """Return the most memory that this process ever held."""
    with open('/proc/self/status', encoding='ascii') as status:
        for line in status:
            if line.startswith('VmHWM:'):
                return 1024 * int(line.split()[1])
    return 0


KINDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    'llama_cpp': LlamaCpp, 'transformers': Transformers}


def serve() -> None:
    """Open what the first line asks for, then answer goals until the input ends."""
    # Libraries print to stdout; answers go where it led before.
    answers = os.fdopen(os.dup(1), 'w', encoding='utf-8')
    os.dup2(2, 1)

    def say(answer: Answer) -> None:
        answers.write(json.dumps(answer) + '\n')
        answers.flush()

    try:
        order = json.loads(sys.stdin.readline())
        peer = KINDS[order['kind']](order)
    except Exception as failure:  # told to the parent, which lists the peer as absent
        say({'error': f'{type(failure).__name__}: {failure}'})
        return
    say({'about': peer.about()})
    for line in sys.stdin:
        goal = json.loads(line)
        try:
            say(peer.generate(goal['prompt'], goal['max_tokens']))
        except Exception as failure:  # told to the parent, which ends the measurement of this row
            say({'error': f'{type(failure).__name__}: {failure}'})


if __name__ == '__main__':
    serve()
