# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One goal as replay sees it: what each draft would have had accepted at each position.

Greedy speculative decoding is lossless, so the output is the same under every strategy. If
m[d][t][j] says whether draft d, unrolled from position t, puts y_(t+j) at its step j, then what
it gets accepted from t on is the run of true values in m[d][t], capped by the draft length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from memspec_ros.boundaries import Target
from memspec_ros.errors import DataError
from memspec_ros.prediction.predictor import Prediction


@dataclass(frozen=True, kw_only=True)
class GoalTable:
    """Acceptance of all drafts on one goal.

    :param runs: per draft, for each of the L output positions the accepted run.
    :param proposed: per draft that may propose fewer than asked (the n-gram draft, or one that
        ends at an end token), how many it proposes at most.
    :param max_draft_length: the steps that were unrolled; no longer draft can be replayed.
    :param num_tokens: output tokens, L; an end token follows where they are fewer than
        ``max_tokens``, the goal's limit.
    :param predictions: a predictor's answer for each number of output tokens, 0 to L.
    """

    name: str
    domain: str
    prompt_length: int
    num_tokens: int
    max_draft_length: int
    runs: Mapping[str, Sequence[int]]
    max_tokens: int
    proposed: Mapping[str, Sequence[int]] = field(default_factory=dict)
    predictions: Sequence[Prediction] = ()

    @classmethod
    def from_matches(cls, matches: Mapping[str, npt.NDArray[np.bool_]], *, name: str = '',
                     domain: str = '', prompt_length: int = 1, max_tokens: int = 0,
                     proposed: Mapping[str, Sequence[int]] | None = None) -> GoalTable:
        """Make a table from m[d] [num_tokens, steps] per draft.

        :param max_tokens: the goal's limit; 0 means that the limit ended the output.

        :raises DataError: the drafts' tables differ in shape.
        """
        shapes = {draft: match.shape for draft, match in matches.items()}
        if len(set(shapes.values())) != 1 or any(len(shape) != 2 for shape in shapes.values()):
            raise DataError(f"acceptance tables of goal '{name}' have shapes {shapes}; all must "
                            'be [num_tokens, steps] alike')
        num_tokens, num_steps = next(iter(shapes.values()))
        runs = {draft: np.cumprod(match, axis=1, dtype=np.int64).sum(axis=1).tolist()
                for draft, match in matches.items()}
        return cls(name=name, domain=domain, prompt_length=prompt_length, num_tokens=num_tokens,
                   max_draft_length=num_steps, runs=runs, proposed=proposed or {},
                   max_tokens=max_tokens or num_tokens)

    def num_drafted(self, draft: str, draft_length: int, position: int) -> int:
        """Tokens that a draft proposes at a position when asked for ``draft_length``.

        Near the limit fewer are drafted, as the target adds a token of its own.
        """
        num_drafted = min(draft_length, self.max_tokens - position - 1)
        if num_drafted > 0 and draft in self.proposed:
            offered = self.proposed[draft]
            return min(num_drafted, offered[position] if position < len(offered) else 0)
        return max(0, num_drafted) if draft else 0


class TableContext:
    """The replayed goal on its way: a ``TokenContext`` of which only the lengths are known."""

    __slots__ = ('position', 'prompt_length', 'table')

    def __init__(self, table: GoalTable) -> None:
        self.table = table
        self.prompt_length = table.prompt_length
        self.position = 0

    @property
    def tokens(self) -> range:
        """Stand-ins for prompt and output tokens; their number is right."""
        return range(self.prompt_length + self.position)

    @property
    def target(self) -> Target:
        """There is none.

        :raises DataError: always; a predictor that reads the target needs its predictions traced.
        """
        raise DataError('replay has no target model: trace the predictions into the table')
