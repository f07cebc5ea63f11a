# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a draft file, in 8 or 4 bits for example, of a plain checkpoint folder."""

from __future__ import annotations

from pathlib import Path

from memspec_ros.models.draft_checkpoint import open_checkpoint_draft
from memspec_ros.models.draft_content import slot_layout
from memspec_ros.models.draft_file import DraftCard, write_draft_file
from memspec_ros.models.draft_slot import DraftSlot
from memspec_ros.models.slot_reader import SlotReader


def convert_checkpoint(folder: Path, path: Path, *, storage: str, domain: str,
                       tokenizer_checksum: str) -> str:
    """Write a draft file of a checkpoint's weights and return its SHA-256.

    Takes the checkpoint's bytes in float32 of memory, and those of the file.

    :param storage: ``fp32``, ``fp16``, ``bf16``, ``int8`` or ``int4``.
    :param tokenizer_checksum: content of the target's tokens, with which the checkpoint's must
        have been compared (token_comparison.py).
    :raises ModelError: the checkpoint is damaged or of another architecture.
    :raises DataError: the file cannot be written.
    """
    content = open_checkpoint_draft(folder, name=folder.name)
    layout = slot_layout(content, 'fp32')
    slot = DraftSlot(num_bytes=layout.num_bytes, reader=SlotReader([content]))
    slot.read_into(content, layout, should_cancel=lambda: False, throttle=lambda _: None)
    card = DraftCard(kind=content.kind, domain=domain, architecture=content.architecture,
                     tokenizer_checksum=tokenizer_checksum, storage=storage,
                     training={'converted_from': folder.name})
    return write_draft_file(path, card, slot.views(layout))
