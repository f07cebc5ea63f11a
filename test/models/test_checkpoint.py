# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Opening model files by their format."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from memspec_ros.errors import ModelFormatError, ModelNotFoundError
from memspec_ros.models.checkpoint import load_decoder, open_checkpoint
from memspec_ros.models.gguf_file import GgufFile
from memspec_ros.models.safetensors_folder import SafetensorsFolder
from memspec_ros.testing.model_files import write_folder, write_gguf
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, random_decoder, tiny_config

CONFIG = tiny_config(vocab_size=264, tied_head=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path / 'tiny', RandomCheckpoint(CONFIG))
    return tmp_path / 'tiny'


def test_a_decoder_is_the_same_from_a_folder(folder: Path) -> None:
    token_ids = torch.arange(30)[None]
    logits = [decoder.forward(token_ids, decoder.make_kv_cache(context_tokens=32), 30)[0]
              for decoder in (load_decoder(folder), load_decoder(folder / 'model.safetensors'),
                              random_decoder(CONFIG))]
    assert torch.equal(logits[0], logits[2])
    assert torch.equal(logits[1], logits[2])


def test_formats(folder: Path, tmp_path: Path) -> None:
    write_gguf(tmp_path / 'm.gguf', RandomCheckpoint(CONFIG))
    assert isinstance(open_checkpoint(tmp_path / 'm.gguf'), GgufFile)
    assert isinstance(open_checkpoint(folder), SafetensorsFolder)
    assert isinstance(open_checkpoint(folder / 'model.safetensors'), SafetensorsFolder)


def test_neither_format(tmp_path: Path) -> None:
    (tmp_path / 'm.bin').write_bytes(b'no model, but long enough for a header')
    with pytest.raises(ModelFormatError, match=r"m\.bin: not a GGUF file: it starts with b'no m'"):
        open_checkpoint(tmp_path / 'm.bin')
    with pytest.raises(ModelNotFoundError, match='none does not exist'):
        open_checkpoint(tmp_path / 'none')


@pytest.mark.parametrize(('dtype', 'activations'), [
    ('fp32', torch.float32), ('bf16', torch.bfloat16), ('int4', torch.bfloat16)])
def test_decoders_in_every_form(folder: Path, dtype: str, activations: torch.dtype) -> None:
    decoder = load_decoder(folder, dtype, context_tokens=32)
    logits, hidden = decoder.forward(torch.arange(9)[None],
                                     decoder.make_kv_cache(context_tokens=32), 2)
    assert (logits.shape, hidden.dtype) == ((1, 2, 264), activations)
