# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Random checkpoints and the small model files made from them."""

from __future__ import annotations

from pathlib import Path

import torch

from memspec_ros.models.checkpoint import load_decoder
from memspec_ros.models.tensor_shapes import tensor_shapes
from memspec_ros.testing.model_files import tensors_of, write_folder, write_gguf
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, random_decoder, tiny_config

CONFIG = tiny_config(vocab_size=264)


def test_tensors_follow_from_name_and_seed() -> None:
    first, again, other = (tensors_of(RandomCheckpoint(CONFIG, seed)) for seed in (0, 0, 1))
    assert {name: tensor.shape for name, tensor in first.items()} == tensor_shapes(CONFIG)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_both_formats_hold_the_same_decoder(tmp_path: Path) -> None:
    write_folder(tmp_path / 'folder', RandomCheckpoint(CONFIG))
    write_gguf(tmp_path / 'm.gguf', RandomCheckpoint(CONFIG))
    decoders = [load_decoder(tmp_path / 'folder'), load_decoder(tmp_path / 'm.gguf'),
                random_decoder(CONFIG)]
    logits = [decoder.forward(torch.arange(8)[None], decoder.make_kv_cache(context_tokens=8), 8)[0]
              for decoder in decoders]
    assert torch.equal(logits[0], logits[2])
    assert torch.equal(logits[1], logits[2])
