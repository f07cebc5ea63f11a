# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Many answers of the target at once: one fp32 forward over rows of different lengths.

The corpus is made with this rather than with the serving decoder, which runs one sequence: here
the matmuls see all rows, finished rows make place for waiting prompts (continuous batching), and
the KV cache is allocated once. The same forward gives a teacher-forced pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from memspec_ros.errors import DataError
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.weights import DecoderWeights, LayerWeights

ADMIT_TOGETHER = 8      # rows that must be free before prompts are admitted: wider passes
PASS_SEQUENCES = 8      # sequences per prefill pass


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answered prompt. ``states`` are those of all positions but the last output token's."""

    index: int
    output_ids: list[int]
    states: torch.Tensor            # [len(prompt) + len(output) - 1, hidden], fp16


Chooser = Callable[[torch.Tensor, Sequence[int], Sequence[int]], list[int]]
"""(logits [rows, vocab], prompt index per row, output length per row) -> token per row."""


def choose_greedy(logits: torch.Tensor, indices: Sequence[int],
                  lengths: Sequence[int]) -> list[int]:
    """Take the most probable token of each row."""
    del indices, lengths
    return [int(token) for token in logits.argmax(-1)]


def choose_sampled(temperature: float, seed: int) -> Chooser:
    """Return a chooser whose draw depends on seed, prompt and position only, not on the batch."""
    def choose(logits: torch.Tensor, indices: Sequence[int], lengths: Sequence[int]) -> list[int]:
        probabilities = torch.softmax(logits / temperature, -1)
        chosen = []
        for row, (index, length) in enumerate(zip(indices, lengths, strict=True)):
            generator = torch.Generator().manual_seed((seed * 1_000_003 + index) * 4099 + length)
            chosen.append(int(torch.multinomial(probabilities[row], 1, generator=generator)))
        return chosen
    return choose


@dataclass(kw_only=True)
class _Row:
    """One sequence in flight; its slot in the KV cache is its place in the list of rows."""

    index: int
    length: int                     # entries in the KV cache
    token: int                      # chosen, not in the KV cache yet
    output_ids: list[int]
    states: torch.Tensor            # [capacity, hidden], fp16


class BatchDecoder:
    """Greedy or sampled answers to many prompts.

    :param weights: the target's, in fp32.
    :param num_rows: sequences in flight at most.
    :param capacity: tokens per sequence, prompt and answer together.
    """

    def __init__(self, config: DecoderConfig, weights: DecoderWeights, *, num_rows: int,
                 capacity: int) -> None:
        self._config = config
        self._weights = weights
        self._capacity = capacity
        shape = (config.num_layers, num_rows, config.num_kv_heads, capacity, config.head_dim)
        self._num_rows = num_rows
        self._keys = torch.zeros(shape)      # [layers, rows, kv_heads, capacity, head]
        self._values = torch.zeros(shape)
        self._cos, self._sin = _rotary_tables(config, capacity)
        self._num_shared = 0
        self._shared_states = torch.zeros(0, config.hidden_size)

    @torch.inference_mode()
    def answer(self, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
               end_ids: frozenset[int], choose: Chooser = choose_greedy,
               on_step: Callable[[int], None] | None = None) -> Iterator[Answer]:
        """Answer all prompts, in the order in which they finish.

        Deterministic: rows are filled in the order of ``prompts``, and what shares a batch
        depends on the answers only.

        :param on_step: told the number of tokens that each step made.
        :raises DataError: a prompt is empty or does not fit with its answer.
        """
        self._check(prompts, max_new_tokens)
        self._begin(prompts)
        waiting = list(enumerate(prompts))[::-1]
        rows: list[_Row] = []
        while waiting or rows:
            free = self._num_rows - len(rows)
            if waiting and (free >= ADMIT_TOGETHER or not rows):
                admitted = [waiting.pop() for _ in range(min(free, len(waiting)))]
                for start in range(0, len(admitted), PASS_SEQUENCES):
                    rows += self._admit(admitted[start:start + PASS_SEQUENCES], len(rows), choose)
            for slot in reversed(range(len(rows))):
                if _finished(rows[slot], max_new_tokens, end_ids):
                    yield self._retire(rows, slot)
            if rows:
                self._step(rows, choose)
                if on_step is not None:
                    on_step(len(rows))

    @torch.inference_mode()
    def teacher_forced(self, sequences: Sequence[Sequence[int]]) -> Iterator[torch.Tensor]:
        """Last hidden states of given sequences, one [tokens, hidden] fp32 for each.

        :raises DataError: a sequence is empty or longer than ``capacity``.
        """
        self._check(sequences, 0)
        self._begin(sequences)
        together = min(PASS_SEQUENCES, self._num_rows)
        for start in range(0, len(sequences), together):
            yield from self._extend(sequences[start:start + together], 0)

    def _check(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> None:
        for index, prompt in enumerate(prompts):
            if not 0 < len(prompt) <= self._capacity - max_new_tokens:
                raise DataError(f'prompt {index} has {len(prompt)} tokens; with '
                                f'{max_new_tokens} new ones 1 to '
                                f'{self._capacity - max_new_tokens} fit')

    def _begin(self, sequences: Sequence[Sequence[int]]) -> None:
        """Compute what all sequences begin with (the system prompt) once, into every slot."""
        shared = _common_prefix(sequences)
        self._num_shared = 0
        self._shared_states = torch.zeros(0, self._config.hidden_size)
        if len(sequences) > 1 and shared:
            self._shared_states = self._extend([shared], 0)[0]
            self._num_shared = len(shared)
            for buffer in (self._keys, self._values):
                buffer[:, 1:, :, :len(shared)] = buffer[:, :1, :, :len(shared)]

    def _admit(self, prompts: Sequence[tuple[int, Sequence[int]]], slot: int,
               choose: Chooser) -> list[_Row]:
        hidden = self._extend([prompt for _, prompt in prompts], slot)
        logits = self._weights.head(torch.stack([states[-1] for states in hidden]))
        tokens = choose(logits, [index for index, _ in prompts], [0] * len(prompts))
        rows = []
        for (index, prompt), token, prompt_states in zip(prompts, tokens, hidden, strict=True):
            states = torch.zeros(self._capacity, prompt_states.shape[1], dtype=torch.float16)
            states[:len(prompt)] = prompt_states
            rows.append(_Row(index=index, length=len(prompt), token=token, output_ids=[token],
                             states=states))
        return rows

    def _retire(self, rows: list[_Row], slot: int) -> Answer:
        row, last = rows[slot], rows.pop()
        if last is not row:
            rows[slot] = last
            for buffer in (self._keys, self._values):
                buffer[:, slot, :, :last.length] = buffer[:, len(rows), :, :last.length]
        return Answer(index=row.index, output_ids=row.output_ids,
                      states=row.states[:row.length].clone())

    def _step(self, rows: list[_Row], choose: Chooser) -> None:
        positions = torch.tensor([row.length for row in rows])
        hidden = self._advance(torch.tensor([row.token for row in rows]), positions)
        logits = self._weights.head(hidden)
        tokens = choose(logits, [row.index for row in rows],
                        [len(row.output_ids) for row in rows])
        for row, token, state in zip(rows, tokens, hidden, strict=True):
            row.states[row.length] = state
            row.length += 1
            row.token = token
            row.output_ids.append(token)

    def _advance(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """One token for each row. tokens, positions: [rows] -> [rows, hidden]."""
        config, weights, num = self._config, self._weights, len(tokens)
        stop = int(positions.max()) + 1
        slots = torch.arange(num)
        mask = torch.arange(stop) <= positions[:, None]                   # [rows, stop]
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        x = weights.embedding[tokens]
        for number, layer in enumerate(weights.layers):
            query, key, value = self._project(layer, x)   # [rows, heads or kv_heads, head]
            keys, values = self._keys[number], self._values[number]
            keys[slots, :, positions] = _rotate(key, cos, sin)
            values[slots, :, positions] = value
            query = _rotate(query, cos, sin).view(num, config.num_kv_heads, -1, config.head_dim)
            mixed = functional.scaled_dot_product_attention(
                query, keys[:num, :, :stop], values[:num, :, :stop],
                attn_mask=mask[:, None, None])
            x = _finish_layer(config, layer, x, mixed.reshape(num, -1))
        return _norm(x, weights.final_norm, config.norm_epsilon)

    def _extend(self, sequences: Sequence[Sequence[int]], slot: int) -> list[torch.Tensor]:
        """Fill the slots from ``slot`` on. Returns [tokens, hidden] for each sequence."""
        config, weights, shared = self._config, self._weights, self._num_shared
        lengths = [len(sequence) - shared for sequence in sequences]
        tokens = torch.tensor([token for sequence in sequences for token in sequence[shared:]])
        positions = torch.cat([torch.arange(shared, shared + length) for length in lengths])
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        masks = [torch.arange(shared + n) <= torch.arange(shared, shared + n)[:, None]
                 for n in lengths]
        x = weights.embedding[tokens]
        for number, layer in enumerate(weights.layers):
            query, key, value = self._project(layer, x)
            parts = zip(_rotate(query, cos, sin).split_with_sizes(lengths),
                        _rotate(key, cos, sin).split_with_sizes(lengths),
                        value.split_with_sizes(lengths), masks, strict=True)
            mixed = torch.cat([self._attend(number, slot + row, *part)
                               for row, part in enumerate(parts)])
            x = _finish_layer(config, layer, x, mixed)
        hidden = _norm(x, weights.final_norm, config.norm_epsilon).split_with_sizes(lengths)
        return [torch.cat((self._shared_states, states)) for states in hidden]

    def _attend(self, number: int, slot: int, query: torch.Tensor, key: torch.Tensor,
                value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Attention of one sequence's tokens. query: [tokens, heads, head]."""
        stop = mask.shape[1]
        keys, values = self._keys[number, slot], self._values[number, slot]
        keys[:, stop - len(key):stop] = key.transpose(0, 1)
        values[:, stop - len(key):stop] = value.transpose(0, 1)
        groups = self._config.num_heads // self._config.num_kv_heads
        mixed = functional.scaled_dot_product_attention(
            query.transpose(0, 1)[None], keys[None, :, :stop].repeat_interleave(groups, 1),
            values[None, :, :stop].repeat_interleave(groups, 1), attn_mask=mask)
        return mixed[0].transpose(0, 1).flatten(1)

    def _project(self, layer: LayerWeights,
                 x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        config = self._config
        fused = layer.qkv(_norm(x, layer.attention_norm, config.norm_epsilon))
        query, key, value = fused.view(len(x), -1, config.head_dim).split_with_sizes(
            (config.num_heads, config.num_kv_heads, config.num_kv_heads), 1)
        return query, key, value


def _common_prefix(sequences: Sequence[Sequence[int]]) -> list[int]:
    """What all sequences begin with, short of the last token of the shortest."""
    shared: list[int] = []
    for tokens in zip(*sequences, strict=False):
        if any(token != tokens[0] for token in tokens):
            break
        shared.append(tokens[0])
    shortest = min((len(sequence) for sequence in sequences), default=1)
    return shared[:shortest - 1]


def _finished(row: _Row, max_new_tokens: int, end_ids: frozenset[int]) -> bool:
    return row.token in end_ids or len(row.output_ids) >= max_new_tokens


def _finish_layer(config: DecoderConfig, layer: LayerWeights, x: torch.Tensor,
                  mixed: torch.Tensor) -> torch.Tensor:
    x = x + layer.output(mixed)
    gate, up = layer.gate_up(_norm(x, layer.mlp_norm, config.norm_epsilon)).chunk(2, -1)
    return x + layer.down(functional.silu(gate) * up)


def _norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    return functional.rms_norm(x, (x.shape[-1],), weight, epsilon)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding, halves rotated against each other. x: [..., head]."""
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


def _rotary_tables(config: DecoderConfig, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
    rates = torch.tensor(config.rope.inverse_frequencies(config.head_dim), dtype=torch.float64)
    angles = torch.arange(capacity, dtype=torch.float64)[:, None] * rates
    return angles.cos().float(), angles.sin().float()
