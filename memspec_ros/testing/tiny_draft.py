# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Draft files of random weights and a few kilobytes, for tests of slots, pools and loaders."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch

from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.draft_file import OUTPUT_TOKEN_IDS, DraftCard, write_draft_file
from memspec_ros.models.independent_decoder import independent_shapes


def tiny_config(*, vocab_size: int = 64, num_layers: int = 1) -> DecoderConfig:
    """Return the shape of a decoder of some thousand weights."""
    return DecoderConfig(family='llama', vocab_size=vocab_size, hidden_size=32,
                         intermediate_size=48, num_layers=num_layers, num_heads=4,
                         num_kv_heads=2, head_dim=8, max_context_tokens=512)


def write_tiny_draft(path: Path, *, seed: int = 0, domain: str = 'general',
                     storage: str = 'fp32', tokenizer_checksum: str = '',
                     config: DecoderConfig | None = None, head_rows: int | None = None,
                     target_hidden_size: int | None = None) -> str:
    """Write an independent draft of random weights and return its file's SHA-256.

    :param head_rows: rows of a trimmed head; row r stands for token r.
    :param target_hidden_size: makes it borrow the target's embeddings of this width.
    """
    config = config or tiny_config()
    generator = torch.Generator().manual_seed(seed)
    shapes = independent_shapes(config, head_rows=head_rows,
                                target_hidden_size=target_hidden_size)
    shapes.pop(OUTPUT_TOKEN_IDS, None)
    weights = {name: torch.randn(shape, generator=generator) * (0.3 if len(shape) > 1 else 1.0)
               for name, shape in shapes.items()}
    card = DraftCard(kind='independent', domain=domain, storage=storage,
                     architecture=dataclasses.asdict(config),
                     tokenizer_checksum=tokenizer_checksum)
    token_ids = None if head_rows is None else torch.arange(head_rows)
    return write_draft_file(path, card, weights, token_ids)
