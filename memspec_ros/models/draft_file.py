# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Draft files: safetensors with a card that says what draft it is and whose.

The card lies in the metadata of the header, under ``memspec_draft``, as JSON. Matrices may be
stored in 8 or 4 bits (draft_storage.py); their scales lie just before them, so that a reader
dequantises in one pass from front to back. ``output_token_ids`` [rows] (int32), when present,
gives the token of the target that each row of the draft's output head stands for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from memspec_ros.atomic_file import written_beside
from memspec_ros.errors import DataError, ModelFormatError, did_you_mean
from memspec_ros.models.draft_storage import (
    FLOAT_DTYPES,
    INT4_GROUP_SIZE,
    INT8_GROUP_SIZE,
    STORAGES,
    QuantisedMatrix,
    quantise_int4,
    quantise_int8,
)
from memspec_ros.models.safetensors_header import DTYPES, SafetensorsHeader, read_header

CARD_KEY = 'memspec_draft'
OUTPUT_TOKEN_IDS = 'output_token_ids'
KINDS = ('independent', 'feature')
FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class DraftCard:
    """What a draft file says of itself.

    :param kind: ``independent`` (a small decoder) or ``feature`` (fed with the target's states).
    :param architecture: settings of that kind's own configuration.
    :param tokenizer_checksum: SHA-256 of the content of the target's tokens.
    :param target_checksum: fingerprint of the target that a feature draft was trained with.
    :param training: data, steps, seed, time, acceptance; for people.
    :param data_checksum: SHA-256 of the bytes after the header; set by the writer.
    """

    kind: str
    domain: str
    architecture: Mapping[str, Any]
    tokenizer_checksum: str
    target_checksum: str = ''
    storage: str = 'fp32'
    training: Mapping[str, Any] = field(default_factory=dict)
    data_checksum: str = ''
    version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        for name, known in (('kind', KINDS), ('storage', STORAGES), ('version', (1,))):
            if getattr(self, name) not in known:
                raise ModelFormatError(f'{name} of a draft is {getattr(self, name)!r}; it must '
                                       f'be one of {", ".join(map(str, known))}')
        for name in ('architecture', 'training'):
            if not isinstance(getattr(self, name), Mapping):
                raise ModelFormatError(f'{name} of a draft must be an object')
        for name in ('domain', 'tokenizer_checksum', 'target_checksum', 'data_checksum'):
            if not isinstance(getattr(self, name), str):
                raise ModelFormatError(f'{name} of a draft must be a string')

    @classmethod
    def from_json(cls, text: str) -> DraftCard:
        """Read a card; ModelFormatError names what is wrong in it."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ModelFormatError(f'the draft card is not JSON: {error}') from error
        known = [item.name for item in fields(cls)]
        if not isinstance(document, dict) or not {'kind', 'domain', 'architecture',
                                                  'tokenizer_checksum'} <= document.keys():
            raise ModelFormatError('the draft card needs kind, domain, architecture and '
                                   'tokenizer_checksum')
        for name in document:
            if name not in known:
                raise ModelFormatError(f"the draft card has an unknown key '{name}'"
                                       f'{did_you_mean(name, known)}')
        return cls(**document)


@dataclass(frozen=True, kw_only=True)
class DraftHeader:
    """A draft file's card and tensors, read without reading any weights.

    ``shapes`` are those of the weights as a model sees them, whatever their storage.
    """

    card: DraftCard
    tensors: SafetensorsHeader
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def path(self) -> Path:
        """The file."""
        return self.tensors.path


def read_draft_header(path: Path) -> DraftHeader:
    """Read and check the header of a draft file.

    :raises ModelNotFoundError: there is no such file.
    :raises ModelFormatError: it is truncated, damaged, or not a draft; names file and cause.
    """
    tensors = read_header(path)
    if CARD_KEY not in tensors.metadata:
        raise ModelFormatError(f"{path} is not a draft file: its metadata have no '{CARD_KEY}'")
    try:
        card = DraftCard.from_json(tensors.metadata[CARD_KEY])
    except ModelFormatError as error:
        raise ModelFormatError(f'{path}: {error}') from error
    return DraftHeader(card=card, tensors=tensors, shapes=_model_shapes(tensors))


def _model_shapes(tensors: SafetensorsHeader) -> dict[str, tuple[int, ...]]:
    """Return the weights' shapes, having checked that scales lie just before what they scale."""
    by_name = {entry.name: entry for entry in tensors.entries}
    shapes = {}
    for index, entry in enumerate(tensors.entries):
        if entry.name.endswith(('.scale', '.zero')) or entry.name == OUTPUT_TOKEN_IDS:
            continue
        parts = [by_name.get(entry.name + suffix) for suffix in ('.scale', '.zero')]
        shapes[entry.name] = _model_shape(tensors.path, entry.name, entry.dtype, entry.shape,
                                          [part.shape if part else None for part in parts])
        expected = [part for part in parts if part]
        if list(tensors.entries[max(0, index - len(expected)):index]) != expected:
            raise ModelFormatError(f"{tensors.path}: scale and zero of '{entry.name}' must lie "
                                   'just before it, in that order')
    return shapes


def _model_shape(path: Path, name: str, dtype: torch.dtype, shape: tuple[int, ...],
                 parts: list[tuple[int, ...] | None]) -> tuple[int, ...]:
    scale, zero = parts
    if dtype in FLOAT_DTYPES.values() and scale is None and zero is None:
        return shape
    if dtype is torch.int8 and len(shape) == 2 and zero is None and scale is not None:
        groups = scale[1] if len(scale) == 2 else 1
        if scale[:1] == shape[:1] and len(scale) <= 2 and groups and shape[1] % groups == 0:
            return shape
    if dtype is torch.uint8 and len(shape) == 2 and scale is not None and scale == zero:
        columns = 2 * shape[1]
        if len(scale) == 2 and scale[0] == shape[0] and scale[1] and columns % scale[1] == 0:
            return shape[0], columns
    raise ModelFormatError(f"{path}: tensor '{name}' is {dtype} {list(shape)} with scale "
                           f'{scale} and zero {zero}; that is no storage of a draft file')


def write_draft_file(path: Path, card: DraftCard, weights: Mapping[str, torch.Tensor],
                     output_token_ids: torch.Tensor | None = None, *,
                     grouped: Collection[str] = ()) -> str:
    """Write a draft file beside ``path`` and rename it; matrices take ``card.storage``.

    :param weights: floats of any shape, by the names under which the kind wants them. What is
        not a matrix stays in float32 when the storage is of 8 or 4 bits.
    :param output_token_ids: [rows], ascending and unique, or None for an untrimmed head.
    :param grouped: matrices that, when the storage is of 8 or 4 bits, take 8 with one scale for
        32 columns.
    :returns: the file's SHA-256, for the pool description.
    :raises DataError: a weight is not finite, or the file cannot be written.
    """
    tensors: dict[str, torch.Tensor] = {}
    if output_token_ids is not None:
        tensors[OUTPUT_TOKEN_IDS] = output_token_ids.to(torch.int32)
    for name, weight in weights.items():
        if not torch.isfinite(weight).all():
            raise DataError(f"weight '{name}' of {path} is not finite")
        tensors.update(stored_tensors(name, weight.detach(), card.storage,
                                      is_grouped=name in grouped))
    return write_tensors(path, card, tensors)


def write_tensors(path: Path, card: DraftCard, tensors: Mapping[str, torch.Tensor]) -> str:
    """Write tensors as they are to be stored, scales first; see :func:`write_draft_file`."""
    data_checksum = hashlib.sha256()
    for tensor in tensors.values():
        data_checksum.update(_bytes(tensor))
    filled = {**asdict(card), 'data_checksum': data_checksum.hexdigest()}
    header = _header_bytes(tensors, {CARD_KEY: json.dumps(filled, sort_keys=True)})
    whole = hashlib.sha256(header)
    with written_beside(path) as file:
        file.write(header)
        for tensor in tensors.values():
            whole.update(_bytes(tensor))
            file.write(_bytes(tensor))
    return whole.hexdigest()


def stored_tensors(name: str, weight: torch.Tensor, storage: str, *,
                   is_grouped: bool = False) -> dict[str, torch.Tensor]:
    """Return what a weight becomes in a file, scales first."""
    if storage in FLOAT_DTYPES:
        return {name: weight.to(FLOAT_DTYPES[storage])}
    if weight.dim() != 2:
        return {name: weight.float()}
    if is_grouped and weight.shape[1] % INT8_GROUP_SIZE == 0:
        quantised = quantise_int8(weight, INT8_GROUP_SIZE)
    elif storage == 'int4' and weight.shape[1] % INT4_GROUP_SIZE == 0:
        quantised = quantise_int4(weight)
    else:
        quantised = quantise_int8(weight)
    zero = {} if quantised.zero is None else {f'{name}.zero': quantised.zero}
    return {f'{name}.scale': quantised.scale, **zero, name: quantised.values}


def as_stored(weight: torch.Tensor, storage: str) -> torch.Tensor:
    """Return what a weight is worth, in float32, once it was in a file."""
    return _restore('weight', stored_tensors('weight', weight, storage))


def _bytes(tensor: torch.Tensor) -> memoryview:
    return tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().data


def _header_bytes(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> bytes:
    names = {dtype: name for name, dtype in DTYPES.items()}
    document: dict[str, Any] = {'__metadata__': dict(metadata)}
    offset = 0
    for name, tensor in tensors.items():
        stop = offset + tensor.numel() * tensor.element_size()
        document[name] = {'dtype': names[tensor.dtype], 'shape': list(tensor.shape),
                          'data_offsets': [offset, stop]}
        offset = stop
    text = json.dumps(document).encode()
    text += b' ' * (-len(text) % 8)
    return len(text).to_bytes(8, 'little') + text


def read_draft_weights(path: Path) -> tuple[DraftHeader, dict[str, torch.Tensor]]:
    """Read a whole draft file at once, in float32; for tools and tests, not for serving.

    :returns: header, and the weights (``output_token_ids`` among them, int32).
    :raises ModelFormatError: as :func:`read_draft_header`, or the bytes do not have the
        checksum of the card.
    """
    header, raw = _read(path)
    weights = {name: _restore(name, raw) for name in header.shapes}
    if OUTPUT_TOKEN_IDS in raw:
        weights[OUTPUT_TOKEN_IDS] = raw[OUTPUT_TOKEN_IDS]
    return header, weights


def read_stored_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read all tensors of a draft file as they are stored; see :func:`read_draft_weights`."""
    return _read(path)[1]


def _read(path: Path) -> tuple[DraftHeader, dict[str, torch.Tensor]]:
    header = read_draft_header(path)
    data = path.read_bytes()
    digest = hashlib.sha256(memoryview(data)[header.tensors.data_start:]).hexdigest()
    if digest != header.card.data_checksum:
        raise ModelFormatError(f'{path} is damaged: its data have SHA-256 {digest}; the card '
                               f'says {header.card.data_checksum}')
    return header, {
        entry.name: _tensor(data, entry.start, entry.stop, entry.dtype, entry.shape)
        for entry in header.tensors.entries}


def _tensor(data: bytes, start: int, stop: int, dtype: torch.dtype,
            shape: tuple[int, ...]) -> torch.Tensor:
    if start == stop:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data[start:stop]), dtype=dtype).view(shape)


def _restore(name: str, raw: Mapping[str, torch.Tensor]) -> torch.Tensor:
    scale = raw.get(f'{name}.scale')
    if scale is None:
        return raw[name].float()
    return QuantisedMatrix(values=raw[name], scale=scale,
                           zero=raw.get(f'{name}.zero')).dequantise()
