# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The description of a pool of drafts (the candidate set D): a YAML file beside the drafts."""

from __future__ import annotations

import dataclasses
import re
import reprlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from memspec_ros.atomic_file import written_beside
from memspec_ros.errors import ConfigError, TokenizerMismatchError, did_you_mean
from memspec_ros.models.model_roots import ModelRoots
from memspec_ros.models.token_comparison import TokenTable, describe_differences

MAX_POOL_FILE_BYTES = 1 << 20
FORMATS = ('draft', 'checkpoint')
KINDS = ('', 'independent', 'feature')
BITS_PER_WEIGHT = {'fp32': 32.0, 'fp16': 16.0, 'bf16': 16.0, 'int8': 8.0, 'int4': 5.0}
RESERVED_NAMES = ('ngram',)
# Fields of a pool that are no part of its file.
HIDDEN = frozenset({'path', 'roots'})
_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9_.-]{0,63}')
_CHECKSUM = re.compile(r'([0-9a-f]{64})?')


@dataclass(frozen=True, kw_only=True)
class PoolEntry:
    """One draft of a pool.

    Exactly one of ``file`` (a draft file or a checkpoint folder, relative to the pool's file) and
    ``hf`` (ORG/NAME[@REVISION], found in the hub's local cache) says where it is.

    :param format: ``draft`` (draft_file.py) or ``checkpoint`` (a Hugging Face folder).
    :param kind: ``independent`` or ``feature`` (it borrows the target's embeddings); '' is told
        by its file, and counted as the latter until that is there.
    :param dtype: how its weights are stored.
    :param num_bytes: bytes of its file or files; ``bytes`` in the YAML.
    :param output_rows: rows of a trimmed output head, whose tokens the file lists (its
        vocabulary map); 0 is the whole vocabulary.
    :param checksum: SHA-256 of its file; '' checks none (a draft file has one of its own).
    """

    name: str
    domain: str
    file: str = ''
    hf: str = ''
    format: str = 'draft'
    kind: str = ''
    dtype: str = 'bf16'
    num_bytes: int = 0
    output_rows: int = 0
    checksum: str = ''

    def __post_init__(self) -> None:
        where = f"draft '{self.name}'"
        if not _NAME.fullmatch(self.name) or self.name in RESERVED_NAMES:
            raise ConfigError(f'{where}: a name has 1 to 64 letters, digits, _ . or - and is not '
                              f'{" or ".join(RESERVED_NAMES)}')
        if bool(self.file) == bool(self.hf):
            raise ConfigError(f'{where} has file {self.file!r} and hf {self.hf!r}; it needs '
                              'exactly one')
        for name, known in (('format', FORMATS), ('kind', KINDS),
                            ('dtype', tuple(BITS_PER_WEIGHT))):
            if getattr(self, name) not in known:
                raise ConfigError(f'{where}: {name} is {getattr(self, name)!r}; it must be one '
                                  f'of {", ".join(filter(None, known))}')
        if self.num_bytes < 0 or self.output_rows < 0:
            raise ConfigError(f'{where}: bytes is {self.num_bytes} and output_rows '
                              f'{self.output_rows}; they must not be negative')
        if not _CHECKSUM.fullmatch(self.checksum):
            raise ConfigError(f'{where}: checksum is {self.checksum!r}; it must be 64 hexadecimal '
                              'digits')

    @property
    def may_borrow(self) -> bool:
        """Whether it may need the target's embeddings, as far as its entry tells."""
        return self.format != 'checkpoint' and self.kind != 'independent'

    def expected_slot_bytes(self, form: str, matrix_dtype: str = '') -> int:
        """Return about what it takes in a slot, from its entry alone; 0 when that says nothing.

        For budgets made before its file is there.

        :param form: the dtype of floats in the slot.
        :param matrix_dtype: that of an independent draft's matrices, ``auto`` as they are stored;
            '' is ``form``.
        """
        if matrix_dtype and not self.may_borrow:
            form = self.dtype if matrix_dtype == 'auto' else matrix_dtype
        return round(self.num_bytes * BITS_PER_WEIGHT[form] / BITS_PER_WEIGHT[self.dtype])


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A pool: for which target, and which drafts.

    :param target: the target's model, as ``target.model`` takes it; for people and messages.
    :param tokenizer_checksum: content of the tokens that all its drafts were made for.
    :param general: the draft for all domains; '' takes the first.
    :param predictor: file of the predictor trained for it, relative to the pool's file.
    :param path: the YAML file.
    :param roots: folders that its files must lie in; no part of the YAML.
    """

    name: str
    target: str
    drafts: tuple[PoolEntry, ...]
    tokenizer_checksum: str = ''
    general: str = ''
    predictor: str = ''
    path: Path = Path()
    roots: ModelRoots = field(default_factory=ModelRoots, compare=False, repr=False)

    def __post_init__(self) -> None:
        names = [entry.name for entry in self.drafts]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"pool {self.path}: there are {names.count(name)} drafts named "
                                  f"'{name}'")
        if self.general and self.general not in names:
            raise ConfigError(f"pool {self.path}: general is '{self.general}', which is no draft "
                              f'of it{did_you_mean(self.general, names)}')
        if not _CHECKSUM.fullmatch(self.tokenizer_checksum):
            raise ConfigError(f'pool {self.path}: tokenizer_checksum is '
                              f'{self.tokenizer_checksum!r}; it must be 64 hexadecimal digits')

    def __getitem__(self, name: str) -> PoolEntry:
        """Return one draft; ConfigError names the nearest known one."""
        for entry in self.drafts:
            if entry.name == name:
                return entry
        names = [entry.name for entry in self.drafts]
        raise ConfigError(f"pool {self.path} has no draft '{name}'{did_you_mean(name, names)}; "
                          f'it has {", ".join(names) or "none"}')

    @property
    def general_draft(self) -> str:
        """The draft for all domains; '' in an empty pool."""
        return self.general or (self.drafts[0].name if self.drafts else '')

    @property
    def predictor_path(self) -> Path | None:
        """The predictor's file, if it has one; ConfigError when it is outside of the roots."""
        if not self.predictor:
            return None
        return self.roots.require(self.path.parent / self.predictor,
                                  f'the predictor of pool {self.path}')

    def select(self, names: Sequence[str]) -> Pool:
        """Return the pool with only some drafts (all when ``names`` is empty).

        :raises ConfigError: a name is not of the pool.
        """
        if not names:
            return self
        kept = tuple(self[name] for name in names)
        return dataclasses.replace(self, drafts=kept,
                                   general=self.general if self.general in names else '')


def load_pool(path: Path, tokenizer_checksum: str = '', *, target_tokens: TokenTable | None = None,
              pool_tokens: TokenTable | None = None) -> Pool:
    """Read a pool's description; its drafts' files are not opened here.

    :param tokenizer_checksum: content of the target's tokens; '' compares nothing.
    :param target_tokens: the target's tokens, ``pool_tokens`` those of the pool's target; when
        both are given, a mismatch is told token by token.
    :raises ConfigError: no such file, not YAML, an unknown key (the nearest known is named), a
        missing one, or a wrong value.
    :raises TokenizerMismatchError: the pool is for tokens of another content.
    """
    pool = _pool(Path(path), _read_yaml(Path(path)))
    wanted = pool.tokenizer_checksum
    if tokenizer_checksum and wanted and wanted != tokenizer_checksum:
        details = describe_differences(pool_tokens, target_tokens) \
            if pool_tokens is not None and target_tokens is not None else 'their contents differ'
        raise TokenizerMismatchError(
            f"pool {path} is for the tokens of '{pool.target}' (content {wanted[:12]}); the "
            f"target's have content {tokenizer_checksum[:12]}: {details}")
    return pool


def write_pool(pool: Pool) -> None:
    """Write a pool's description to its ``path``, beside and renamed.

    :raises DataError: the file cannot be written.
    """
    document = {key: value for key, value in _document(pool).items() if key not in HIDDEN}
    document['drafts'] = [_document(entry) for entry in pool.drafts]
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=99)
    header = f'# Pool of drafts for {pool.target}: see `memspec pool --help`.\n'
    with written_beside(pool.path) as file:
        file.write((header + text).encode())


def _document(record: Any) -> dict[str, Any]:
    """Return a record's fields by their names in YAML, without those at their default."""
    return {_key(one): getattr(record, one.name) for one in dataclasses.fields(record)
            if getattr(record, one.name) != one.default}


def _key(one: dataclasses.Field[Any]) -> str:
    return 'bytes' if one.name == 'num_bytes' else one.name


def _read_yaml(path: Path) -> Any:
    try:
        size = path.stat().st_size
        if size > MAX_POOL_FILE_BYTES:
            raise ConfigError(f'pool {path} has {size} bytes; at most {MAX_POOL_FILE_BYTES} are '
                              'read')
        return yaml.safe_load(path.read_text(encoding='utf-8'))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f'pool {path} cannot be read: {error}') from error


def _pool(path: Path, document: Any) -> Pool:
    values = _values(Pool, document, f'pool {path}', HIDDEN)
    drafts = values.get('drafts')
    if not isinstance(drafts, list):
        raise ConfigError(f'pool {path}: drafts is {reprlib.repr(drafts)}; it must be a list')
    entries = tuple(
        PoolEntry(**_values(PoolEntry, item, f'draft {index + 1} of pool {path}', set()))
        for index, item in enumerate(drafts))
    return Pool(**{**values, 'drafts': entries, 'path': path})


def _values(kind: Any, document: Any, where: str, hidden: Collection[str]) -> dict[str, Any]:
    """Check keys and types against a record's fields and return the values by field."""
    known = {_key(one): one for one in dataclasses.fields(kind) if one.name not in hidden}
    if not isinstance(document, Mapping):
        raise ConfigError(f'{where} is a {type(document).__name__}; it must be a mapping')
    for key in document:
        if key not in known:
            name = key if isinstance(key, str) else reprlib.repr(key)
            raise ConfigError(f"{where} has an unknown key '{name}'{did_you_mean(name, known)}")
    for key, one in known.items():
        if one.default is dataclasses.MISSING and key not in document:
            raise ConfigError(f'{where} lacks {key}')
        wanted = {'str': str, 'int': int}.get(str(one.type))
        if wanted and key in document and type(document[key]) is not wanted:
            raise ConfigError(f'{where}: {key} is {reprlib.repr(document[key])}; it must be '
                              f'{"text" if wanted is str else "an integer"}')
    return {known[key].name: value for key, value in document.items()}
