# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The drafts that may come into slots, and what they take there; known before any is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memspec_ros.errors import MemSpecError, ModelFormatError
from memspec_ros.models.copy_stream import PINNED_BYTES, copies_to
from memspec_ros.models.draft_content import ALIGNMENT_BYTES, DraftContent, SlotLayout
from memspec_ros.models.draft_kinds import DraftKind, Surroundings
from memspec_ros.models.feature_kind import FeatureKind
from memspec_ros.models.independent_kind import IndependentKind
from memspec_ros.models.slot_reader import SlotReader

KINDS: dict[str, DraftKind] = {'independent': IndependentKind(), 'feature': FeatureKind()}
NOTHING_EXPECTED: Mapping[str, int] = {}

_Stamps = tuple[tuple[int, int, int], ...]
"""Inode, size and time of change (ns) of each file."""

OpenContent = Callable[[], DraftContent]
"""Describes a draft from its files' headers; raises ModelError when it cannot serve."""


class DraftSet:
    """Drafts by name, described from their files' headers.

    :param openers: how each draft is described; called now, and again at each load, so that a
        file that was repaired meanwhile serves.
    :param surroundings: what is known of the target; the embedding is not needed here.
    :param expected_bytes: what a draft that cannot be opened now may take in a slot once its
        file is there, so that the slots and the budget have room for it.

    ``contents`` are the drafts that can serve; ``unavailable`` says why the others cannot.
    """

    def __init__(self, openers: Mapping[str, OpenContent], surroundings: Surroundings, *,
                 expected_bytes: Mapping[str, int] = NOTHING_EXPECTED) -> None:
        self._openers = openers
        self._surroundings = surroundings
        self._expected_bytes = expected_bytes
        self._opened: dict[str, tuple[_Stamps | None, DraftContent]] = {}
        self.contents: dict[str, DraftContent] = {}
        self.unavailable: dict[str, str] = {}
        for name in openers:
            try:
                self.contents[name] = self.open(name)
            except MemSpecError as error:
                self.unavailable[name] = str(error)

    @property
    def names(self) -> tuple[str, ...]:
        """All drafts, the unavailable ones among them."""
        return tuple(self._openers)

    def open(self, name: str) -> DraftContent:
        """Describe a draft as its files are now; headers are parsed when a file has changed.

        :raises ModelError: a file is missing, damaged, or does not go with the target.
        """
        stamps, content = self._opened.get(name, (None, None))
        if content is None or stamps is None or _stamps(content) != stamps:
            content = self._openers[name]()
            self.kind(content).check(content, self._surroundings)
            self._opened[name] = _stamps(content), content
        return content

    def forget(self, name: str) -> None:
        """Parse a draft's headers at the next opening, whatever its files' times say."""
        self._opened.pop(name, None)

    def kind(self, content: DraftContent) -> DraftKind:
        """Return what knows this kind of draft; ModelFormatError when nothing does."""
        try:
            return KINDS[content.kind]
        except KeyError:
            raise ModelFormatError(f"draft '{content.name}' is of kind '{content.kind}'; known "
                                   f'are {", ".join(KINDS)}') from None

    def layout(self, content: DraftContent) -> SlotLayout:
        """Return how a draft lies in a slot."""
        return self.kind(content).layout(content, self._surroundings)

    def weight_bytes(self, name: str) -> int:
        """Return the bytes of one draft's weights in a slot."""
        content = self.contents.get(name)
        return self._expected_bytes.get(name, 0) if content is None \
            else self.layout(content).num_bytes

    def memory_bytes(self, content: DraftContent) -> int:
        """Return the bytes of one draft's KV cache."""
        return self.kind(content).memory_bytes(content, self._surroundings)

    @property
    def needs_embedding(self) -> bool:
        """Whether one of those that can serve needs the target's embeddings."""
        return any(self.kind(content).needs_embedding(content)
                   for content in self.contents.values())

    @property
    def slot_bytes(self) -> int:
        """Bytes of a slot: the largest draft's weights."""
        return max((self.weight_bytes(name) for name in self._openers), default=0)

    @property
    def slot_memory_bytes(self) -> int:
        """Bytes of a slot's KV cache: the largest draft's, of those whose shape is known."""
        largest = max((self.memory_bytes(content) for content in self.contents.values()),
                      default=0)
        return -(-largest // ALIGNMENT_BYTES) * ALIGNMENT_BYTES

    @property
    def staging_bytes(self) -> int:
        """Bytes of the buffers through which drafts are read."""
        if not self._openers:
            return 0
        pinned = 2 * PINNED_BYTES if self._surroundings.device == 'cuda' else 0
        return pinned + SlotReader(self.contents.values()).num_bytes

    def make_reader(self) -> SlotReader:
        """Return a reader with buffers large enough for each of these drafts."""
        return SlotReader(self.contents.values(), copies_to(self._surroundings.device))


def _stamps(content: DraftContent) -> _Stamps | None:
    """None when a file is gone, which is for its opener to say."""
    try:
        files = [part.path.stat() for part in content.parts]
    except OSError:
        return None
    return tuple((file.st_ino, file.st_size, file.st_mtime_ns) for file in files)
