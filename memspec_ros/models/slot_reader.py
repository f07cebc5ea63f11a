# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a draft's files into a slot's tensors in chunks, dequantising on the way.

All buffers are allocated once and shared by the slots, since one thread reads. Bytes that have
the slot's form already are read straight into it; others pass through a staging buffer. Chunks
that are converted stay below the size from which PyTorch would spread an operation over the
cores, because those belong to the decode thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch

from memspec_ros.errors import LoadError
from memspec_ros.models.copy_stream import PINNED_BYTES, Copies, StagedCopies
from memspec_ros.models.draft_content import DraftContent, FilePart, Piece
from memspec_ros.models.draft_storage import unpack_int4
from memspec_ros.models.matrices import DenseMatrix, GroupedMatrix, Matrix
from memspec_ros.models.safetensors_header import TensorEntry
from memspec_ros.models.slot_forms import ROW_STEP, FormedMatrix

DIRECT_CHUNK_BYTES = 2**18
CONVERTED_CHUNK_ELEMENTS = 32_000
MAX_ELEMENT_BYTES = 8


class ReadCancelledError(Exception):
    """The reader was asked to stop; not an error of the package, never leaves the slot."""


class SlotReader:
    """Staging buffers, and the reading through them.

    :param contents: every draft that may be read; the buffers are sized for the largest.
    :param copies: how bytes get to the slots' device; None where that is the host.
    """

    def __init__(self, contents: Iterable[DraftContent], copies: Copies | None = None) -> None:
        self._staged = None if copies is None else StagedCopies(copies)
        pieces = [piece for content in contents for part in content.parts
                  for piece in part.pieces if len(piece.values.shape) == 2]
        columns = max((piece.columns for piece in pieces), default=0)
        elements = max(CONVERTED_CHUNK_ELEMENTS, ROW_STEP * columns)
        scales = max((_num_elements(piece.scale) for piece in pieces
                      if piece.scale is not None), default=0)
        self._raw = torch.empty(elements * MAX_ELEMENT_BYTES, dtype=torch.uint8)
        self._unpacked = torch.empty(elements, dtype=torch.uint8)
        self._work = torch.empty(elements)
        self._scale = torch.empty(scales)
        self._zero = torch.empty(scales)
        self._elements = elements

    @property
    def num_bytes(self) -> int:
        """Bytes that the buffers take."""
        staged = 0 if self._staged is None else self._staged.num_bytes
        return staged + sum(buffer.numel() * buffer.element_size() for buffer in (
            self._raw, self._unpacked, self._work, self._scale, self._zero))

    @contextlib.contextmanager
    def beside_passes(self) -> Iterator[None]:
        """Let what is read and derived inside run beside the passes; done when it ends."""
        if self._staged is None:
            yield
            return
        with self._staged.copies.copying():
            try:
                yield
            finally:
                self._staged.finish()

    def read(self, content: DraftContent, into: Mapping[str, torch.Tensor | FormedMatrix], *,
             should_cancel: Callable[[], bool], throttle: Callable[[int], None]) -> None:
        """Read all files of a draft into contiguous tensors, or matrices in a form.

        What nothing is given for is only taken into the checksum.

        :raises LoadError: a file cannot be read, is truncated, was changed since it was opened,
            or its bytes do not have the checksum.
        :raises ReadCancelledError: ``should_cancel`` said so.
        """
        for part in content.parts:
            with _opened(part) as fd:
                source = _Source(part, fd, should_cancel, throttle)
                source.check_header()
                for piece in part.pieces:
                    if piece.fills in into:
                        self._read_piece(source, piece, into[piece.fills])
                source.check_data()

    def _read_piece(self, source: _Source, piece: Piece,
                    into: torch.Tensor | FormedMatrix) -> None:
        if isinstance(into, FormedMatrix):
            self._read_formed(source, piece, into)
            return
        if into.dim():
            into = into[piece.first_row:piece.first_row + piece.values.shape[0]]
        if piece.scale is not None:
            self._read_quantised(source, piece, into)
        elif piece.values.dtype is into.dtype and self._staged is not None:
            self._read_staged(source, piece.values, into.view(-1), self._staged)
        elif piece.values.dtype is into.dtype:
            source.read_direct(piece.values, into)
        else:
            self._read_converted(source, piece.values, into.view(-1))

    def _read_formed(self, source: _Source, piece: Piece, into: FormedMatrix) -> None:
        rows, stored_columns = piece.values.shape
        scales = None if piece.scale is None else \
            self._read_scales(source, piece.scale, self._scale).view(rows, -1)
        zeros = None if piece.zero is None else \
            self._read_scales(source, piece.zero, self._zero).view(rows, -1)
        # Codes of 8 bits are only put in order, by no operation of PyTorch's.
        elements = CONVERTED_CHUNK_ELEMENTS if scales is None or zeros is not None else \
            self._raw.numel()
        step = max(ROW_STEP, elements // piece.columns // ROW_STEP * ROW_STEP)
        for row in range(0, rows, step):
            part = slice(row, min(row + step, rows))
            stored = source.read(piece.values, row * stored_columns,
                                 (part.stop - row) * stored_columns, self._raw)
            into.write(piece.first_row + row, self._chunk(
                stored.view(-1, stored_columns), None if scales is None else scales[part],
                None if zeros is None else zeros[part]))

    def _chunk(self, stored: torch.Tensor, scales: torch.Tensor | None,
               zeros: torch.Tensor | None) -> Matrix:
        """Return rows as the file stores them."""
        if scales is None:
            return DenseMatrix(data=stored)
        if zeros is None:
            return GroupedMatrix(codes=stored, scales=scales, minima=None, num_bits=8)
        codes = self._unpacked[:2 * stored.numel()].view(stored.shape[0], -1)
        return GroupedMatrix(codes=unpack_int4(stored, out=codes), scales=scales, num_bits=4,
                             minima=zeros - 8.0 * scales)

    @staticmethod
    def _read_staged(source: _Source, entry: TensorEntry, into: torch.Tensor,
                     staged: StagedCopies) -> None:
        """Read a tensor through pinned memory, one chunk on its way while the next is read."""
        step = PINNED_BYTES // entry.dtype.itemsize
        for first in range(0, into.numel(), step):
            chunk = into[first:first + step]
            staged.send(chunk, source.read(entry, first, chunk.numel(), staged.next_buffer()))

    def _read_converted(self, source: _Source, entry: TensorEntry, into: torch.Tensor) -> None:
        step = CONVERTED_CHUNK_ELEMENTS
        for first in range(0, into.numel(), step):
            chunk = into[first:first + step]
            chunk.copy_(source.read(entry, first, chunk.numel(), self._raw))

    def _read_quantised(self, source: _Source, piece: Piece, into: torch.Tensor) -> None:
        scale, zero = piece.scale, piece.zero
        assert scale is not None
        rows = into.shape[0]
        scales = self._read_scales(source, scale, self._scale).view(rows, -1)
        zeros = None if zero is None else \
            self._read_scales(source, zero, self._zero).view(rows, -1)
        step = max(1, CONVERTED_CHUNK_ELEMENTS // piece.columns)
        stored_columns = piece.values.shape[1]
        for row in range(0, rows, step):
            chunk = into[row:row + step]
            stored = source.read(piece.values, row * stored_columns,
                                 chunk.shape[0] * stored_columns, self._raw)
            part = slice(row, row + chunk.shape[0])
            self._dequantise(stored.view(-1, stored_columns), scales[part],
                             None if zeros is None else zeros[part], chunk)

    def _read_scales(self, source: _Source, entry: TensorEntry,
                     into: torch.Tensor) -> torch.Tensor:
        into = into[:_num_elements(entry)]
        self._read_converted(source, entry, into)
        return into

    def _dequantise(self, stored: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None,
                    into: torch.Tensor) -> None:
        """Write ``stored`` [rows, columns] times ``scales`` [rows, groups] into a chunk."""
        work = self._work[:into.numel()].view(into.shape)
        if zeros is None:
            work.copy_(stored)
        else:
            codes = self._unpacked[:into.numel()].view(into.shape)
            work.copy_(unpack_int4(stored, out=codes)).sub_(8.0)
        grouped = work.view(into.shape[0], scales.shape[1], -1).mul_(scales[..., None])
        if zeros is not None:
            grouped.add_(zeros[..., None])
        into.copy_(work)


class _Source:
    """One open file, read from front to back."""

    def __init__(self, part: FilePart, fd: int, should_cancel: Callable[[], bool],
                 throttle: Callable[[int], None]) -> None:
        self._part = part
        self._fd = fd
        self._should_cancel = should_cancel
        self._throttle = throttle
        self._digest = hashlib.sha256() if part.checksum else None
        self._position = part.data_start

    def check_header(self) -> None:
        """Read the header and compare it with the one that was opened."""
        part = self._part
        size = os.fstat(self._fd).st_size
        if size != part.file_bytes:
            raise LoadError(f'{part.path} has {size} bytes; it had {part.file_bytes} when it was '
                            'opened')
        header = bytearray(part.data_start)
        self._read_exactly(memoryview(header), 0)
        if hashlib.sha256(header).hexdigest() != part.header_checksum:
            raise LoadError(f'{part.path} has another header than when it was opened')
        if self._digest and part.checked_from == 0:
            self._digest.update(header)

    def check_data(self) -> None:
        """Compare the checksum of what was read."""
        self._digest_up_to(self._part.file_bytes)
        digest = self._digest.hexdigest() if self._digest else ''
        if digest != self._part.checksum:
            raise LoadError(f'{self._part.path} is damaged: its bytes have SHA-256 {digest}; '
                            f'{self._part.checksum} was expected')

    def read(self, entry: TensorEntry, first: int, num_elements: int,
             buffer: torch.Tensor) -> torch.Tensor:
        """Read elements of a tensor into a buffer of bytes; a flat view of the entry's dtype."""
        size = entry.dtype.itemsize
        raw = buffer[:num_elements * size]
        self._read_chunk(raw.numpy().data, entry.start + first * size)
        return raw.view(entry.dtype)

    def read_direct(self, entry: TensorEntry, into: torch.Tensor) -> None:
        """Read a whole tensor into memory of the same dtype."""
        target = into.view(-1).view(torch.uint8).numpy().data
        for first in range(0, entry.num_bytes, DIRECT_CHUNK_BYTES):
            self._read_chunk(target[first:min(first + DIRECT_CHUNK_BYTES, entry.num_bytes)],
                             entry.start + first)

    def _read_chunk(self, into: memoryview, offset: int) -> None:
        if self._should_cancel():
            raise ReadCancelledError
        self._digest_up_to(offset)
        self._read_exactly(into, offset)
        if self._digest:
            self._digest.update(into)
        self._position = offset + len(into)
        self._throttle(len(into))

    def _digest_up_to(self, offset: int) -> None:
        """Take bytes that no tensor of the slot wants into the checksum."""
        while self._digest and self._position < offset:
            skipped = bytearray(min(DIRECT_CHUNK_BYTES, offset - self._position))
            self._read_exactly(memoryview(skipped), self._position)
            self._digest.update(skipped)
            self._position += len(skipped)
            self._throttle(len(skipped))

    def _read_exactly(self, into: memoryview, offset: int) -> None:
        done = 0
        while done < len(into):
            num_bytes = os.preadv(self._fd, [into[done:]], offset + done)
            if num_bytes == 0:
                raise LoadError(f'{self._part.path} ended at byte {offset + done} while it was '
                                f'read; {self._part.file_bytes} bytes were expected')
            done += num_bytes


@contextlib.contextmanager
def _opened(part: FilePart) -> Iterator[int]:
    """Open a file for one pass and let the kernel drop its pages afterwards.

    The bytes are in the slot then; on a Jetson the page cache would be a second copy in the
    memory that CPU and GPU share.
    """
    try:
        fd = os.open(part.path, os.O_RDONLY)
        try:
            yield fd
        finally:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
    except OSError as error:
        raise LoadError(f'{part.path} cannot be read: {error}') from error


def _num_elements(entry: TensorEntry | None) -> int:
    return 0 if entry is None else entry.num_bytes // entry.dtype.itemsize
