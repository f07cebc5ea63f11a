# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The files behind a pool's entries: where they are, what they hold, and how to add one."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import torch

from memspec_ros.errors import (
    ConfigError,
    DependencyError,
    ModelError,
    ModelFormatError,
    ModelNotFoundError,
    TokenizerMismatchError,
)
from memspec_ros.models.draft_checkpoint import open_checkpoint_draft
from memspec_ros.models.draft_content import DraftContent, open_draft_file
from memspec_ros.models.draft_file import OUTPUT_TOKEN_IDS, read_draft_header
from memspec_ros.models.draft_storage import FLOAT_DTYPES
from memspec_ros.models.pool import KINDS, Pool, PoolEntry, write_pool
from memspec_ros.models.token_comparison import TokenTable, require_same_tokens
from memspec_ros.models.tokenizer_files import load_tokenizer

HASH_CHUNK_BYTES = 1 << 20


def draft_path(pool: Pool, entry: PoolEntry) -> Path:
    """Return where a draft's file or folder is.

    :raises ModelNotFoundError: it is not there; the message says how to get it.
    :raises DependencyError: it is in the hub, and huggingface_hub is not installed.
    :raises ConfigError: it is outside of the pool's roots.
    """
    return pool.roots.require(_place(pool, entry), f"draft '{entry.name}'")


def _place(pool: Pool, entry: PoolEntry) -> Path:
    if entry.hf:
        return _hub_folder(entry)
    path = pool.path.parent / entry.file
    if not path.exists():
        raise ModelNotFoundError(f"draft '{entry.name}': there is no {path}; put the file there "
                                 f'(memspec distill makes it), or change the entry in {pool.path}')
    return path


def _hub_folder(entry: PoolEntry) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise DependencyError(f"draft '{entry.name}' is hf:{entry.hf}, which needs the package "
                              'huggingface_hub: pip install huggingface_hub') from error
    name, _, revision = entry.hf.partition('@')
    try:
        return Path(snapshot_download(name, revision=revision or None, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError, OSError) as error:
        wanted = f' --revision {revision}' if revision else ''
        raise ModelNotFoundError(f"draft '{entry.name}': hf:{entry.hf} is not in the local cache; "
                                 f'get it with: hf download {name}{wanted}') from error


def open_entry(pool: Pool, entry: PoolEntry,
               target_tokens: TokenTable | None = None) -> DraftContent:
    """Describe a draft from its files' headers and compare it with its entry.

    :param target_tokens: compared with a checkpoint's own tokenizer where the pool's description
        has no ``tokenizer_checksum``.
    :raises ModelNotFoundError: a file is not there; the message says how to get it.
    :raises ModelFormatError: a file is damaged, or not what the entry says.
    :raises TokenizerMismatchError: it is for other tokens.
    """
    path = draft_path(pool, entry)
    if entry.format == 'draft':
        content = open_draft_file(path, name=entry.name, checksum=entry.checksum)
        _check_tokenizer(pool, content)
    else:
        content = open_checkpoint_draft(path, name=entry.name, checksum=entry.checksum)
        if target_tokens is not None and not pool.tokenizer_checksum:
            require_same_tokens(load_tokenizer(path), target_tokens, entry.name)
    rows = content.shapes.get(OUTPUT_TOKEN_IDS, (0,))[0]
    for key, said, seen in (('bytes', entry.num_bytes, content.file_bytes),
                            ('output_rows', entry.output_rows, rows)):
        if said and said != seen:
            raise ModelFormatError(f"draft '{entry.name}': {path} has {key} {seen}; its entry in "
                                   f'{pool.path} says {said}')
    return content


def _check_tokenizer(pool: Pool, content: DraftContent) -> None:
    wanted, seen = pool.tokenizer_checksum, content.tokenizer_checksum
    if wanted and seen and wanted != seen:
        raise TokenizerMismatchError(
            f"draft '{content.name}': {content.parts[0].path} was made for tokens of content "
            f"{seen[:12]}; the pool's have {wanted[:12]}")


def openers(pool: Pool,
            target_tokens: TokenTable | None = None) -> dict[str, Callable[[], DraftContent]]:
    """Return how each draft of a pool is described, for ``DraftSlots``.

    A checkpoint's tokenizer is compared once, when its description first succeeds.
    """
    compared: set[str] = set()

    def opener(entry: PoolEntry) -> Callable[[], DraftContent]:
        def open_it() -> DraftContent:
            tokens = None if entry.name in compared else target_tokens
            content = open_entry(pool, entry, tokens)
            compared.add(entry.name)
            return content
        return open_it
    return {entry.name: opener(entry) for entry in pool.drafts}


def unavailable_drafts(pool: Pool) -> dict[str, str]:
    """Return, of each draft that cannot be opened, why, and how to get it."""
    reasons = {}
    for entry in pool.drafts:
        try:
            open_entry(pool, entry)
        except (ModelError, DependencyError) as error:
            reasons[entry.name] = str(error)
    return reasons


def add_draft(pool: Pool, source: Path, *, name: str, domain: str = '', general: bool = False,
              target_tokens: TokenTable | None = None) -> Pool:
    """Describe a draft file or checkpoint folder, add it to a pool and write the pool's file.

    An entry of the same name is replaced.

    :param domain: '' takes the one of the draft's card, else its name.
    :param target_tokens: what a checkpoint's tokens are compared with; a draft file carries the
        checksum of its tokens, which becomes the pool's when the pool has none yet.
    :raises ModelError: as :func:`open_entry`.
    :raises ConfigError: the name cannot be one.
    """
    is_folder = Path(source).is_dir()
    entry = PoolEntry(name=name, domain=domain or name, file=_relative(pool, source),
                      format='checkpoint' if is_folder else 'draft')
    content = open_entry(pool, entry)
    if is_folder and target_tokens is not None:
        require_same_tokens(load_tokenizer(Path(source)), target_tokens, name)
    card = None if is_folder else read_draft_header(Path(source)).card
    single = len(content.parts) == 1
    entry = dataclasses.replace(
        entry, num_bytes=content.file_bytes,
        domain=domain or (card.domain if card else '') or name,
        dtype=card.storage if card else _stored_dtype(content),
        kind=content.kind if content.kind in KINDS else '',
        output_rows=content.shapes.get(OUTPUT_TOKEN_IDS, (0,))[0],
        checksum=file_checksum(content.parts[0].path) if single else '')
    kept = tuple(other for other in pool.drafts if other.name != name)
    pool = dataclasses.replace(
        pool, drafts=(*kept, entry), general=name if general else pool.general,
        tokenizer_checksum=pool.tokenizer_checksum or content.tokenizer_checksum)
    write_pool(pool)
    return pool


def file_checksum(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal.

    :raises ModelFormatError: it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with open(path, 'rb') as file:
            while chunk := file.read(HASH_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise ModelFormatError(f'{path} cannot be read: {error}') from error
    return digest.hexdigest()


def _relative(pool: Pool, source: Path) -> str:
    """Return a path as seen from the pool's folder; one outside of it stays absolute."""
    source, folder = Path(source).absolute(), pool.path.absolute().parent
    if not source.exists():
        raise ModelNotFoundError(f'there is no {source} to add to pool {pool.path}')
    inside = os.path.commonpath([source, folder]) == str(folder)
    return str(source.relative_to(folder) if inside else source)


def _stored_dtype(content: DraftContent) -> str:
    names = {dtype: name for name, dtype in FLOAT_DTYPES.items()}
    dtypes: set[torch.dtype] = {piece.values.dtype for part in content.parts
                                for piece in part.pieces}
    if len(dtypes) != 1:
        raise ConfigError(f"draft '{content.name}' stores its weights in several dtypes: "
                          f'{", ".join(sorted(map(str, dtypes)))}')
    return names[dtypes.pop()]
