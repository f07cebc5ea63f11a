# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The training loop: cosine schedule, checkpoints, and a run that ends the same after a kill."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from memspec_ros.atomic_file import written_beside
from memspec_ros.errors import ConfigError, DataError
from memspec_ros.training.draft_loss import Acceptance, DraftModel, LossOptions
from memspec_ros.training.muon import Muon
from memspec_ros.training.processes import Processes
from memspec_ros.training.progress import Progress
from memspec_ros.training.slots import SlotSequence, TargetTables, batches


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """How one draft is trained.

    ``rate`` is Muon's, for matrices; ``adam_rate`` is for vectors. Both rise over the first
    ``warmup_steps`` and fall along a cosine to a twentieth.

    :raises ConfigError: an option is out of range.
    """

    epochs: float = 4.0
    slots_per_batch: int = 1500
    rate: float = 0.02
    adam_rate: float = 3e-3
    warmup_steps: int = 20
    checkpoint_steps: int = 50
    metrics_steps: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ('epochs', 'rate', 'adam_rate', 'slots_per_batch', 'checkpoint_steps',
                     'metrics_steps'):
            if not 0 < getattr(self, name) < 1e9:
                raise ConfigError(f'{name} is {getattr(self, name)}; it must be positive')


class Trainer:
    """Trains one draft, from where a checkpoint left off.

    :param checkpoint: its file; removed by :meth:`discard_checkpoint`.
    :param identity: what the checkpoint must belong to (data, options); any JSON-like value.
    """

    def __init__(self, model: DraftModel, tables: TargetTables, *, options: TrainerOptions,
                 loss: LossOptions, checkpoint: Path, identity: Any,
                 processes: Processes) -> None:
        self.metrics: list[dict[str, Any]] = []
        self.seconds = 0.0
        self._model = model
        self._tables = tables
        self._options = options
        self._loss = loss
        self._checkpoint = checkpoint
        self._identity = repr((identity, asdict(options), asdict(loss)))
        self._processes = processes
        self._optimiser = Muon(dict(model.parts.items()), rate=options.rate,
                               adam_rate=options.adam_rate, tables=model.tables,
                               slow=model.slow)
        self._step = 0
        self._resume()

    def train(self, sequences: Sequence[SlotSequence], held_out: Sequence[SlotSequence],
              what: str) -> None:
        """Train to the end; the model holds the result."""
        per_epoch = sum(1 for _ in batches(sequences, self._options.slots_per_batch, 0))
        total = max(1, math.ceil(per_epoch * self._options.epochs))
        seen = Acceptance(starts={}, right={})
        with Progress(total, what, unit='steps', done=self._step) as progress:
            for step, batch in self._remaining(sequences, total):
                start_s = time.monotonic()
                loss = self._learn(batch, step, total, seen)
                self._step = step + 1
                self.seconds += time.monotonic() - start_s
                if self._step % self._options.metrics_steps == 0 or self._step == total:
                    self._note(loss, seen, held_out)
                    seen = Acceptance(starts={}, right={})
                if self._step % self._options.checkpoint_steps == 0:
                    self._save()
                progress.add(1, f'loss {loss:.3f}')

    def discard_checkpoint(self) -> None:
        """Remove the checkpoint once the draft file is written."""
        if self._processes.is_first:
            self._checkpoint.unlink(missing_ok=True)

    def _remaining(self, sequences: Sequence[SlotSequence],
                   total: int) -> Iterator[tuple[int, list[SlotSequence]]]:
        step = epoch = 0
        while step < total:
            epoch += 1
            for batch in batches(sequences, self._options.slots_per_batch,
                                 self._options.seed * 1000 + epoch):
                if step >= self._step and step < total:
                    yield step, batch
                step += 1

    def _learn(self, batch: list[SlotSequence], step: int, total: int,
               seen: Acceptance) -> float:
        torch.manual_seed(self._options.seed * 1_000_003 + step)
        self._optimiser.scale_rates(_schedule(step, total, self._options.warmup_steps))
        share = self._processes.share(batch)
        self._optimiser.zero_grad()
        loss, acceptance = self._model(share, self._tables, self._loss)
        loss.backward()  # type: ignore[no-untyped-call]
        self._processes.average([part.grad for part in self._model.parts.values()])
        self._optimiser.step()
        seen.add(acceptance)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise DataError(f'the loss is {value} at step {step}; lower the rate '
                            f'({self._options.rate})')
        return value

    def _note(self, loss: float, seen: Acceptance, held_out: Sequence[SlotSequence]) -> None:
        measured = evaluate(self._model, held_out, self._tables)
        self.metrics.append({
            'step': self._step, 'loss': loss, 'train_committed': seen.committed(),
            'held_out_committed': measured.committed()})

    def _save(self) -> None:
        if self._processes.is_first:
            with written_beside(self._checkpoint) as file:
                torch.save({'identity': self._identity, 'step': self._step,
                            'metrics': self.metrics, 'seconds': self.seconds,
                            'model': self._model.state_dict(),
                            'optimiser': self._optimiser.state_dict()}, file)

    def _resume(self) -> None:
        if not self._checkpoint.exists():
            return
        try:
            saved = torch.load(self._checkpoint, weights_only=True)
        except Exception as error:  # torch raises many kinds for damaged files
            raise DataError(f'checkpoint {self._checkpoint} is damaged ({error}); remove it to '
                            'train from the start') from error
        if saved['identity'] != self._identity:
            raise DataError(f'checkpoint {self._checkpoint} is of another run (data or options '
                            'differ); remove it or choose another output')
        self._model.load_state_dict(saved['model'])
        self._optimiser.load_state_dict(saved['optimiser'])
        self._step, self.metrics = saved['step'], saved['metrics']
        self.seconds = saved['seconds']


@torch.no_grad()
def evaluate(model: DraftModel, sequences: Sequence[SlotSequence], tables: TargetTables,
             num_steps: int = 3) -> Acceptance:
    """Count what would be accepted on sequences that were not trained on."""
    total = Acceptance(starts={}, right={})
    for batch in batches(sequences, 3000, 0):
        total.add(model(batch, tables, LossOptions(num_steps=num_steps, soft_weight=0.0))[1])
    return total


def _schedule(step: int, total: int, warmup: int) -> float:
    warm = min(1.0, (step + 1) / warmup)
    return warm * (0.05 + 0.95 * 0.5 * (1.0 + math.cos(math.pi * step / total)))
