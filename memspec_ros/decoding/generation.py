# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The tokens of one goal: prompt and output, and the one place where output ends."""

from __future__ import annotations

from collections.abc import Sequence

from memspec_ros.boundaries import Target
from memspec_ros.decoding.text_stream import TextStream
from memspec_ros.records import FinishReason


class Generation:
    """Tokens of one goal; a :class:`~memspec_ros.boundaries.TokenContext` for the drafts.

    Tokens are cut at the end token, a stop string or a limit before anything else sees them:
    KV cache, metrics and policy only ever meet what was emitted. The earliest end wins.

    :param prompt: at least one token.
    :param max_tokens: output tokens at most, at least 1.
    :param limit_reason: what to report when ``max_tokens`` are out: LENGTH, or CONTEXT where the
        context and not the client set the limit.
    """

    def __init__(self, *, target: Target, prompt: Sequence[int], text: TextStream,
                 max_tokens: int, limit_reason: FinishReason = FinishReason.LENGTH) -> None:
        self.target = target
        self.tokens = list(prompt)
        self.prompt_length = len(prompt)
        self.text = text
        self.finish_reason: FinishReason | None = None
        self._max_tokens = max_tokens
        self._limit_reason = limit_reason

    @property
    def num_output(self) -> int:
        """Tokens emitted so far."""
        return len(self.tokens) - self.prompt_length

    @property
    def num_left(self) -> int:
        """Tokens that may still be emitted."""
        return self._max_tokens - self.num_output

    @property
    def output(self) -> Sequence[int]:
        """The emitted tokens; those at or past a stop string are not among them."""
        return self.tokens[self.prompt_length:self.prompt_length + self.text.num_tokens]

    def commit(self, chosen: Sequence[int]) -> int:
        """Append the target's tokens up to the first end and return how many became output."""
        before = len(self.tokens)
        for token_id in chosen:
            if token_id in self.target.end_ids:
                self.finish_reason = FinishReason.STOP
                break
            self.tokens.append(token_id)
            if self.text.push(token_id):
                self.finish_reason = FinishReason.STOP
                break
            if not self.num_left:
                self.finish_reason = self._limit_reason
                break
        return len(self.tokens) - before
