# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The other end of a peer's process: orders out, answers in."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from memspec_ros.bench.peer_child import peak_rss_bytes
from memspec_ros.errors import DependencyError, MemSpecError

__all__ = ['PeerAnswer', 'PeerOrder', 'PeerProcess', 'peak_rss_bytes']

CHILD = Path(__file__).with_name('peer_child.py')
CLOSE_TIMEOUT_S = 10.0
MAX_REASON = 300


@dataclass(frozen=True, kw_only=True)
class PeerOrder:
    """How a peer opens the model.

    :param kind: llama_cpp or transformers.
    :param look_up_tokens: draft length of its prompt look-up; 0 is plain.
    :param assistant: model that assists (transformers only).
    """

    kind: str
    model: str
    context_tokens: int
    num_threads: int
    end_ids: tuple[int, ...]
    look_up_tokens: int = 0
    assistant: str = ''


@dataclass(frozen=True, kw_only=True)
class PeerAnswer:
    """One goal as the peer decoded it; ``cpu_s`` is of its process so far."""

    tokens: tuple[int, ...]
    prefill_s: float
    first_token_s: float
    decode_s: float
    cpu_s: float
    peak_rss_bytes: int


class PeerProcess:
    """A peer that is open; goals come one at a time.

    :param python: the interpreter that has it; '' is ours.
    :raises DependencyError: it cannot be opened there, and why.
    """

    def __init__(self, order: PeerOrder, *, python: str = '') -> None:
        self._kind = order.kind
        # Open as long as the process is; close() closes both.
        self._log = tempfile.TemporaryFile('w+', encoding='utf-8',  # noqa: SIM115
                                           errors='replace')
        try:
            self._process = subprocess.Popen(
                [python or sys.executable, str(CHILD)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=self._log, text=True, encoding='utf-8')
        except OSError as error:
            self._log.close()
            raise DependencyError(f'{order.kind}: {python} cannot be run: {error}') from error
        try:
            self.about: dict[str, Any] = self._ask(asdict(order))['about']
        except MemSpecError as error:
            self.close()
            raise DependencyError(f'{order.kind} cannot be opened: {error}') from error

    def generate(self, prompt: Sequence[int], max_tokens: int) -> PeerAnswer:
        """Decode a goal greedily.

        :raises MemSpecError: the peer failed, and how.
        """
        values = self._ask({'prompt': list(prompt), 'max_tokens': max_tokens})
        return PeerAnswer(**{**values, 'tokens': tuple(values['tokens'])})

    def close(self) -> None:
        """End the process."""
        _pipe(self._process.stdin).close()
        try:
            self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _pipe(self._process.stdout).close()
        self._log.close()

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        try:
            stdin = _pipe(self._process.stdin)
            stdin.write(json.dumps(order) + '\n')
            stdin.flush()
            line = _pipe(self._process.stdout).readline()
        except OSError:
            line = ''
        if not line:
            raise MemSpecError(f'its process ended: {self._last_words()}')
        answer: dict[str, Any] = json.loads(line)
        if 'error' in answer:
            raise MemSpecError(str(answer['error'])[:MAX_REASON])
        return answer

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = [line for line in self._log.read().splitlines() if line.strip()]
        return (lines or ['it said nothing'])[-1][:MAX_REASON]


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
