# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What every target refuses, in the same words."""

from __future__ import annotations

from collections.abc import Sequence

from memspec_ros.boundaries import Target
from memspec_ros.errors import ModelError


def check_extend(target: Target, token_ids: Sequence[int], num_logits: int) -> None:
    """Check the arguments of :meth:`~memspec_ros.boundaries.Target.extend`.

    :raises ModelError: the context would overflow, a token is not in the vocabulary, or
        ``num_logits`` is out of range.
    """
    if not token_ids or not 0 <= num_logits <= len(token_ids):
        raise ModelError(f'{num_logits} logits of {len(token_ids)} tokens were asked for')
    if target.length + len(token_ids) > target.context_tokens:
        raise ModelError(f'{target.length} tokens in the KV cache and {len(token_ids)} more '
                         f'pass the context of {target.context_tokens}')
    if not 0 <= min(token_ids) <= max(token_ids) < target.vocab_size:
        raise ModelError(f'token {min(token_ids)} or {max(token_ids)} is not in the vocabulary '
                         f'of {target.vocab_size}')


def check_rollback(target: Target, length: int) -> None:
    """Check the argument of :meth:`~memspec_ros.boundaries.Target.rollback`.

    :raises ModelError: ``length`` is negative or beyond the cursor.
    """
    if not 0 <= length <= target.length:
        raise ModelError(f'cannot roll the KV cache back to {length}: it holds {target.length} '
                         'tokens')
