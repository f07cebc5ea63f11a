# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A pool by distillation: the general draft first, then a specialist per domain from it."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from memspec_ros.atomic_file import written_beside
from memspec_ros.errors import ConfigError
from memspec_ros.models.decoder_config import DecoderConfig
from memspec_ros.models.draft_file import (
    KINDS,
    OUTPUT_TOKEN_IDS,
    DraftCard,
    read_draft_weights,
    write_draft_file,
)
from memspec_ros.models.feature_head import write_feature_draft
from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.models.pool import Pool, load_pool
from memspec_ros.models.pool_files import add_draft
from memspec_ros.training.corpus_file import Conversation
from memspec_ros.training.distill_data import Split, channel_scales, make_sequences
from memspec_ros.training.draft_loss import Acceptance, DraftModel, LossOptions
from memspec_ros.training.feature_model import FeatureModel
from memspec_ros.training.independent_model import IndependentModel
from memspec_ros.training.processes import Processes
from memspec_ros.training.slots import SlotSequence, TargetTables, frequent_rows
from memspec_ros.training.trained_target import TrainedTarget
from memspec_ros.training.trainer import Trainer, TrainerOptions, evaluate

GENERAL = 'general'
GENERALIST_FILE = 'general.safetensors'


@dataclass(frozen=True, kw_only=True)
class DistillOptions:
    """What drafts are made and how.

    :param num_soft: the target's probabilities kept per slot.
    :param max_context: slots kept before an answer; training sees no prompt beyond.
    :param storage: how draft files store matrices.
    :param layers: of an independent draft; a feature-conditioned one has one.
    :param blend: how far a specialist goes from the general draft towards what it became in
        training: weights are ``general + blend * (trained - general)``. Little text of one
        source teaches its peculiarities, too; a part of the way keeps what is general
        (Wortsman et al. 2022, arXiv 2109.01903).
    :raises ConfigError: the kind is unknown, ``blend`` is out of range, or the sizes do not go
        together.
    """

    kind: str = 'feature'
    layers: int = 2
    rows: int = 4096
    width: int = 256
    intermediate: int = 1024
    window: int = 256
    num_soft: int = 8
    max_context: int = 192
    storage: str = 'int8'
    blend: float = 1.0
    general: TrainerOptions = dataclasses.field(
        default_factory=lambda: TrainerOptions(epochs=1.5, slots_per_batch=1000))
    specialist: TrainerOptions = dataclasses.field(
        default_factory=lambda: TrainerOptions(epochs=1.5, rate=0.01, adam_rate=1e-3,
                                               slots_per_batch=800))
    loss: LossOptions = dataclasses.field(default_factory=LossOptions)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"kind is '{self.kind}'; it must be one of {', '.join(KINDS)}")
        if not 0.0 < self.blend <= 1.0:
            raise ConfigError(f'blend is {self.blend}; it must be in (0, 1]')

    def decoder_config(self, vocab_size: int) -> DecoderConfig:
        """The shape of an independent draft; heads are of 64 channels where that fits.

        :raises ModelError: the width does not divide into heads.
        """
        head = math.gcd(self.width, 64)
        return DecoderConfig(
            family='llama', vocab_size=vocab_size, hidden_size=self.width, head_dim=head,
            intermediate_size=self.intermediate, num_layers=self.layers,
            num_heads=self.width // head, num_kv_heads=self.width // head,
            max_context_tokens=self.window)


class PoolDistiller:
    """Makes the drafts of one pool, each once; a finished file is kept.

    :param folder: the pool's; ``pool.yaml``, a file per draft and ``metrics/``.
    :param reference: the target as ``target.model`` takes it, for the pool's description.
    """

    def __init__(self, folder: Path, target: TrainedTarget, split: Split,
                 options: DistillOptions, *, reference: str) -> None:
        self._folder = folder
        self._target = target
        self._split = split
        self._options = options
        self._reference = reference
        self._processes = Processes()
        (folder / 'metrics').mkdir(parents=True, exist_ok=True)

    def general(self, start: Path | None = None) -> Path:
        """Train the general draft on all domains, or find it trained.

        :param start: a draft of the same sizes to go on from.
        """
        return self._draft(GENERAL, GENERAL, self._split, self._options.general, start)

    def specialist(self, domain: str) -> Path:
        """Train a domain's draft from the general one, or find it trained.

        :raises ConfigError: the general draft is not there yet.
        :raises DataError: the domain is empty.
        """
        start = self._folder / GENERALIST_FILE
        if not start.exists():
            raise ConfigError(f'{start} is missing: train the general draft first')
        name = f'{domain}-chat' if domain == GENERAL else domain
        return self._draft(name, domain, self._split.of(domain), self._options.specialist, start)

    def _draft(self, name: str, domain: str, split: Split, options: TrainerOptions,
               start: Path | None) -> Path:
        path = self._folder / f'{name}.safetensors'
        if path.exists():
            return path
        start_weights = None if start is None else read_draft_weights(start)[1]
        tables = self._tables(split, start_weights)
        model = self._new_model(tables, options.seed)
        if start_weights is not None:
            model.load_weights(start_weights)
        trainer = Trainer(
            model, tables, options=options, loss=self._options.loss,
            checkpoint=self._folder / f'{name}.checkpoint', processes=self._processes,
            identity=[self._target.checksum, name, len(split.train), asdict(self._options)])
        trainer.train(self._sequences(split.train, tables),
                      self._sequences(split.held_out, tables), name)
        if self._processes.is_first:
            if start_weights is not None and name != GENERAL:
                _blend(model, start_weights, self._options.blend)
            self._write(path, domain, model, tables, trainer, split)
        trainer.discard_checkpoint()
        self._processes.wait()
        return path

    def _tables(self, split: Split, start: Mapping[str, torch.Tensor] | None) -> TargetTables:
        """The rows of the draft that training begins with, or the most frequent ones."""
        embedding = self._target.weights.embedding
        rows = frequent_rows(split.train, min(self._options.rows, len(embedding)),
                             len(embedding)) if start is None else start[OUTPUT_TOKEN_IDS].long()
        return TargetTables.make(embedding, embedding, rows)

    def _new_model(self, tables: TargetTables, seed: int) -> DraftModel:
        options, embedding = self._options, self._target.weights.embedding
        scales = channel_scales(self._split.train, embedding, tables.row_tokens)
        rows = len(tables.row_tokens)
        if options.kind == 'independent':
            return IndependentModel(options.decoder_config(len(embedding)), scales['embedding'],
                                    rows=rows, seed=seed)
        model = FeatureModel(FeatureConfig(
            hidden_size=embedding.shape[1], rows=rows, width=options.width,
            intermediate=options.intermediate, window=options.window), scales, seed=seed)
        model.set_row_frequencies(_row_counts(self._split, tables))
        return model

    def _sequences(self, items: Sequence[Conversation],
                   tables: TargetTables) -> list[SlotSequence]:
        return make_sequences(items, tables, num_soft=self._options.num_soft,
                              max_context=self._options.max_context)

    def _write(self, path: Path, domain: str, model: DraftModel, tables: TargetTables,
               trainer: Trainer, split: Split) -> None:
        training = {
            'answers': len(split.train),
            'answer_tokens': sum(len(item.output_ids) for item in split.train),
            'steps': trainer.metrics[-1]['step'], 'seconds': round(trainer.seconds),
            'options': asdict(self._options)}
        card = DraftCard(
            kind=self._options.kind, domain=domain, architecture=model.architecture,
            storage=self._options.storage, target_checksum=self._target.checksum,
            tokenizer_checksum=self._target.tokenizer.content_checksum(), training=training)
        weights = {name: part.detach() for name, part in model.weights().items()}
        trial = path.with_suffix('.trial')
        self._store(trial, card, weights, tables)
        measured = self._measure(trial, model, tables)
        trial.unlink()
        card = dataclasses.replace(card, training={
            **training, 'held_out_committed_per_iteration': measured.committed()})
        self._store(path, card, weights, tables)
        _write_json(self._folder / 'metrics' / f'{path.stem}.json', trainer.metrics)
        self._describe(path, domain)

    def _store(self, path: Path, card: DraftCard, weights: Mapping[str, torch.Tensor],
               tables: TargetTables) -> None:
        if card.kind == 'feature':
            write_feature_draft(path, card, weights, tables.row_tokens, tables.rows)
        else:
            write_draft_file(path, card, weights, tables.row_tokens)

    def _measure(self, path: Path, model: DraftModel, tables: TargetTables) -> Acceptance:
        """Held-out acceptance on all domains with the weights as stored."""
        _, weights = read_draft_weights(path)
        model.load_weights(weights)
        return evaluate(model, self._sequences(self._split.held_out, tables), tables)

    def _describe(self, path: Path, domain: str) -> None:
        file = self._folder / 'pool.yaml'
        pool = load_pool(file) if file.exists() else Pool(
            name=self._folder.name, target=self._reference, drafts=(), path=file,
            tokenizer_checksum=self._target.tokenizer.content_checksum())
        add_draft(pool, path, name=path.stem, domain=domain, general=path.stem == GENERAL)


def _row_counts(split: Split, tables: TargetTables) -> torch.Tensor:
    rows = tables.token_rows[torch.tensor([token for item in split.train
                                           for token in item.output_ids])]
    return torch.bincount(rows[rows >= 0], minlength=len(tables.row_tokens)).float()


@torch.no_grad()
def _blend(model: DraftModel, start: Mapping[str, torch.Tensor], share: float) -> None:
    """Keep ``share`` of what training changed."""
    trained = model.weights()
    model.load_weights({name: start[name].lerp(weight, share)
                        for name, weight in trained.items()})


def _write_json(path: Path, document: object) -> None:
    with written_beside(path) as file:
        file.write((json.dumps(document, indent=1) + '\n').encode())
