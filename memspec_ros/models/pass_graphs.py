# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Passes captured as CUDA graphs, one per width, over memory that stays where it is.

A pass of a 7B model is some three hundred kernels; replayed as a graph they start without Python.
Shapes in a graph cannot change, so a pass attends over the whole KV cache under a mask. Captured
before other threads use the device, in thread-local mode (vLLM#48053). Where capture fails,
passes run plainly.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from memspec_ros.models.decoder import Decoder
from memspec_ros.models.kv_cache import KVCache
from memspec_ros.models.row_decoders import TorchRow

# The token before a draft, and drafts of up to seven.
TARGET_WIDTHS = tuple(range(1, 9))
DRAFT_WIDTHS = (1, 2)

_logger = logging.getLogger(__name__)


class Graph(Protocol):
    """A captured pass."""

    def replay(self) -> None:
        """Run it again, over the same memory."""


class Fence(Protocol):
    """A point in the work of a device."""

    def wait(self) -> None:
        """Return when the device has come by it."""


class GraphMaker(Protocol):
    """What capture needs of a device."""

    def pinned(self, num_elements: int) -> torch.Tensor:
        """Return int64 memory of the host that the device copies from by itself."""

    def capture(self, run: Callable[[], None]) -> Graph:
        """Capture what ``run`` tells the device to do; RuntimeError when that cannot be."""

    def fence(self) -> Fence:
        """Return a fence behind all that the device was told so far."""


class CudaGraphMaker:
    """Captures on the current CUDA device."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def pinned(self, num_elements: int) -> torch.Tensor:
        """Return pinned memory."""
        return torch.zeros(num_elements, dtype=torch.int64).pin_memory()

    def capture(self, run: Callable[[], None]) -> Graph:
        """Run twice on a stream of its own, so that kernels are chosen and loaded; capture."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode='thread_local'):
            run()
        return graph

    def fence(self) -> Fence:
        """Record an event."""
        return _CudaFence()


@functools.cache
def shared_graph_maker() -> CudaGraphMaker:
    """Return the maker of all drafts' graphs.

    Their outputs may lie in one place, since each is read before another draft runs; the
    target's graphs have a maker of their own.
    """
    return CudaGraphMaker()


class _CudaFence:
    def __init__(self) -> None:
        self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._event.record()

    def wait(self) -> None:
        """Wait on the host."""
        self._event.synchronize()


class CapturedPass:
    """One width's pass over one KV cache.

    :param num_rows: logits that :attr:`best` looks at; None is all.
    """

    def __init__(self, decoder: Decoder, kv_cache: KVCache, width: int, maker: GraphMaker, *,
                 num_rows: int | None = None) -> None:
        self._decoder = decoder
        self._kv_cache = kv_cache
        self._width = width
        self._num_rows = num_rows
        self._maker = maker
        self._host = maker.pinned(width + 1)
        # Token ids, and the position of the first: what changes comes in one copy.
        self._inputs = torch.zeros(width + 1, dtype=torch.int64, device=decoder.device)
        self._steps = torch.arange(width, device=decoder.device)
        self._fence: Fence | None = None
        self._graph = maker.capture(self._run)

    def __call__(self, token_ids: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Append tokens; logits [width, vocab_size] and hidden states [width, hidden].

        Both are valid until the next call.

        :raises ModelError: the KV cache would overflow.
        """
        self._kv_cache.check_room(self._width)
        if self._fence is not None:
            self._fence.wait()  # the host's buffer may still be on its way
        self._host[:-1] = torch.tensor(token_ids)
        self._host[-1] = self._kv_cache.length
        self._inputs.copy_(self._host, non_blocking=True)
        self._fence = self._maker.fence()
        self._graph.replay()
        self._kv_cache.advance(self._width)
        return self._logits[0], self._hidden[0]

    def best_rows(self) -> list[int]:
        """Return the ids of the largest logits of the last call, in one copy to the host."""
        return [int(row) for row in self._best.tolist()]

    @torch.inference_mode()
    def _run(self) -> None:
        positions = (self._inputs[-1] + self._steps)[None]
        self._logits, self._hidden = self._decoder.forward_at(
            self._inputs[None, :-1], positions, self._kv_cache)
        self._best = self._logits[0, :, :self._num_rows].argmax(-1)


def capture_passes(decoder: Decoder, kv_cache: KVCache, widths: Sequence[int],
                   maker: GraphMaker, *, num_rows: int | None = None) -> dict[int, CapturedPass]:
    """Capture a pass of each width, the widest first; none from the first that fails on."""
    captured: dict[int, CapturedPass] = {}
    for width in sorted(widths, reverse=True):
        try:
            captured[width] = CapturedPass(decoder, kv_cache, width, maker, num_rows=num_rows)
        except RuntimeError as error:
            reason = str(error).partition('\n')[0]
            _logger.warning('passes of %d tokens and fewer run without a graph: %s', width, reason)
            break
    return captured


class GraphedRow(TorchRow):
    """A row whose narrow passes are graphs; others run plainly."""

    def __init__(self, decoder: Decoder, *, context_tokens: int, maker: GraphMaker,
                 widths: Sequence[int] = TARGET_WIDTHS) -> None:
        super().__init__(decoder, context_tokens=context_tokens)
        self._captured = capture_passes(decoder, self.kv_cache, widths, maker)

    def forward(self, token_ids: Sequence[int],
                num_logits: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Append tokens; see :meth:`RowDecoder.forward`."""
        captured = self._captured.get(len(token_ids))
        if captured is None:
            return super().forward(token_ids, num_logits)
        logits, hidden = captured(token_ids)
        return logits[len(token_ids) - num_logits:], hidden


class GraphedDraftDecoder:
    """A draft's decoder whose steps are graphs, for each of its KV caches.

    :param num_rows: rows of the head that count.
    """

    def __init__(self, decoder: Decoder, kv_caches: Sequence[KVCache], *, num_rows: int | None,
                 maker: GraphMaker, widths: Sequence[int] = DRAFT_WIDTHS) -> None:
        self.num_embeddings = decoder.num_embeddings
        self._decoder = decoder
        self._captured = {id(kv_cache): capture_passes(decoder, kv_cache, widths, maker,
                                                       num_rows=num_rows)
                          for kv_cache in kv_caches}

    def best_rows(self, token_ids: Sequence[int], kv_cache: KVCache, num_wanted: int,
                  num_rows: int) -> list[int]:
        """Append tokens; the most probable rows of the head after the last ``num_wanted``."""
        captured = self._captured.get(id(kv_cache), {}).get(len(token_ids))
        if captured is None:
            return self._decoder.best_rows(token_ids, kv_cache, num_wanted, num_rows)
        captured(token_ids)
        return captured.best_rows()[len(token_ids) - num_wanted:] if num_wanted else []
