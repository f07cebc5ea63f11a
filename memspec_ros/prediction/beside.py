# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Predicting beside decoding: a slow predictor must not hold tokens up."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from memspec_ros.boundaries import Target, TokenContext
from memspec_ros.errors import DataError
from memspec_ros.prediction.predictor import Prediction, Predictor


@dataclass(frozen=True, kw_only=True)
class TokenSnapshot:
    """The tokens of a goal at one moment; safe to read from another thread."""

    tokens: Sequence[int]
    prompt_length: int

    @property
    def target(self) -> Target:
        """There is none.

        :raises DataError: always; what reads the target must run on the decode thread.
        """
        raise DataError('a predictor beside decoding cannot read the target')


@dataclass(frozen=True, kw_only=True)
class _Question:
    """A context handed over, and of which goal it is."""

    goal: int
    context: TokenSnapshot
    recent_tokens: int


class PredictorBeside:
    """Runs a predictor that reads tokens only on a thread of its own.

    The first prediction of a goal is awaited (d_0 needs it); each later call hands the context
    over and returns the newest prediction that is done, which is that of a point before.

    :param predictor: called by the thread only.
    """

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._changed = threading.Condition()
        self._context: TokenContext | None = None
        self._goal = 0
        self._question: _Question | None = None
        self._answer: Prediction | Exception | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name='predictor', daemon=True)
        self._thread.start()

    def predict(self, context: TokenContext, recent_tokens: int) -> Prediction:
        """Hand the context over; return the newest prediction of this goal.

        :raises Exception: what the predictor raised for this goal.
        """
        snapshot = TokenSnapshot(tokens=tuple(context.tokens),
                                 prompt_length=context.prompt_length)
        with self._changed:
            if context is not self._context:
                self._context, self._answer = context, None
                self._goal += 1
            self._question = _Question(goal=self._goal, context=snapshot,
                                       recent_tokens=recent_tokens)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answer is not None)
            if isinstance(self._answer, Exception):
                raise self._answer
            assert self._answer is not None
            return self._answer

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def close(self, timeout_s: float = 2.0) -> bool:
        """End the thread; tell whether it ended within the limit."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        return not self.is_alive

    def _run(self) -> None:
        while (question := self._next_question()) is not None:
            answer = self._ask(question)
            with self._changed:
                if question.goal == self._goal:
                    self._answer = answer
                    self._changed.notify_all()

    def _next_question(self) -> _Question | None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._question is not None)
            question, self._question = self._question, None
            return None if self._is_closed else question

    def _ask(self, question: _Question) -> Prediction | Exception:
        try:
            return self._predictor.predict(question.context, question.recent_tokens)
        except Exception as failure:  # told to the decode thread, which asked
            return failure
