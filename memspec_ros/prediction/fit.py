# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Training a ranking head on traces, and how well it ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from memspec_ros.errors import DataError
from memspec_ros.prediction.ranking_head import RankingHead

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Contexts of traces, n of them, and what each draft would have done next.

    :param features: [n, F] float32; NaN where a part is unknown.
    :param utilities: [n, D]: committed tokens per second over the next N iterations.
    :param rates: [n, D]: share of first proposals that are right over those tokens.
    :param groups: [n]: the prompt each context belongs to.
    :raises DataError: the numbers of contexts differ.
    """

    drafts: tuple[str, ...]
    features: Floats
    utilities: Floats
    rates: Floats
    groups: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        lengths = {len(self.features), len(self.utilities), len(self.rates), len(self.groups)}
        if len(lengths) != 1 or self.utilities.shape[1] != len(self.drafts):
            raise DataError(f'samples: {len(self.features)} features, utilities '
                            f'{self.utilities.shape}, rates {self.rates.shape}, '
                            f'{len(self.groups)} groups for {len(self.drafts)} drafts')

    def best(self) -> Floats:
        """Return the share of each draft in being best: [n, D]; ties share."""
        is_best = np.isclose(self.utilities, self.utilities.max(axis=1, keepdims=True))
        return np.asarray(is_best / is_best.sum(axis=1, keepdims=True), dtype=np.float32)

    def select(self, rows: npt.NDArray[np.bool_]) -> Samples:
        """Return some of the contexts."""
        return Samples(drafts=self.drafts, features=self.features[rows],
                       utilities=self.utilities[rows], rates=self.rates[rows],
                       groups=self.groups[rows])


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """How a head is trained.

    ``gain_weight`` is that of the expected regret, a few percent of the utility where drafts are
    alike: its gradient must stand up to that of the cross-entropy, which takes a draft that is
    often a little ahead and sometimes far behind for a good one.
    """

    num_hidden: int = 64
    num_epochs: int = 30
    batch_size: int = 512
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    dropout: float = 0.2
    rate_weight: float = 2.0
    gain_weight: float = 100.0
    validation_share: float = 0.1
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Quality:
    """How well a head ranks: top-1, top-2, calibration, and what acting on it keeps.

    :param top1: share of contexts whose best draft (or one of them, on ties) is ranked first.
    :param top2: share of contexts in which it is among the first two.
    :param kept_utility: mean utility of the first-ranked draft as a share of the best one's.
    :param calibration_error: mean gap between said probability and found frequency, 10 bins.
    :param confusion: [D, D] counts: best draft (row) against ranked first (column).
    """

    top1: float
    top2: float
    kept_utility: float
    calibration_error: float
    rate_error: float
    confusion: list[list[int]]


def fit_head(samples: Samples, options: FitOptions | None = None) -> RankingHead:
    """Train a head; of some prompts the contexts are held out to stop at the best epoch.

    The loss is the cross-entropy of the best draft, the expected regret (utility lost by
    following the scores, as a share of the best), and the cross-entropy of the rates.

    :raises DataError: no samples.
    """
    options = options or FitOptions()
    if len(samples.features) == 0:
        raise DataError('no contexts to train a predictor on')
    torch.manual_seed(options.seed)
    held_out = _held_out(samples.groups, options)
    mean, scale = _standard(samples.features)
    network = torch.nn.Sequential(
        torch.nn.Linear(samples.features.shape[1], options.num_hidden), torch.nn.ReLU(),
        torch.nn.Dropout(options.dropout),
        torch.nn.Linear(options.num_hidden, 2 * len(samples.drafts)))
    training = _tensors(samples.select(~held_out), mean, scale)
    validation = _tensors(samples.select(held_out), mean, scale)
    _train(network, training, validation, options)
    return _as_head(network, samples.drafts, mean, scale)


def measure_head(head: RankingHead, samples: Samples) -> Quality:
    """Return how well a head ranks contexts that it was not trained on."""
    scores, rates = head.outputs(samples.features)
    best = samples.best()
    order = np.argsort(-scores, axis=1, kind='stable')
    rows = np.arange(len(scores))
    is_best = best > 0
    first, second = order[:, 0], order[:, min(1, order.shape[1] - 1)]
    top1 = is_best[rows, first]
    confusion = np.zeros((len(samples.drafts),) * 2, dtype=np.int64)
    np.add.at(confusion, (np.where(top1, first, samples.utilities.argmax(axis=1)), first), 1)
    return Quality(
        top1=float(top1.mean()), top2=float((top1 | is_best[rows, second]).mean()),
        kept_utility=float((samples.utilities[rows, first]
                            / samples.utilities.max(axis=1)).mean()),
        calibration_error=_calibration_error(scores.ravel(), best.ravel()),
        rate_error=float(np.abs(rates - samples.rates).mean()), confusion=confusion.tolist())


def merge(parts: Sequence[Samples]) -> Samples:
    """Return the samples of several prompts together.

    :raises DataError: none, or of different drafts.
    """
    if not parts or any(part.drafts != parts[0].drafts for part in parts):
        raise DataError(f'samples of the same drafts are needed; there are '
                        f'{sorted({part.drafts for part in parts})}')
    return Samples(drafts=parts[0].drafts, **{
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ('features', 'utilities', 'rates', 'groups')})


_Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _standard(features: Floats) -> tuple[Floats, Floats]:
    """Return mean and inverse deviation of each feature over the contexts that know it."""
    is_known = ~np.isnan(features)
    counts = np.maximum(is_known.sum(axis=0), 1)
    mean = np.where(is_known, features, 0.0).sum(axis=0) / counts
    deviation = np.sqrt(np.where(is_known, (features - mean) ** 2, 0.0).sum(axis=0) / counts)
    return mean.astype(np.float32), (1.0 / (deviation + 1e-3)).astype(np.float32)


def _held_out(groups: npt.NDArray[np.int64], options: FitOptions) -> npt.NDArray[np.bool_]:
    """Choose whole prompts to hold out, the same ones for the same seed."""
    names = np.unique(groups)
    rng = np.random.default_rng(options.seed)
    num_held_out = round(options.validation_share * len(names))
    return np.isin(groups, rng.permutation(names)[:num_held_out])


def _tensors(samples: Samples, mean: Floats, scale: Floats) -> _Batch:
    standard = np.nan_to_num((samples.features - mean) * scale)
    relative = samples.utilities / samples.utilities.max(axis=1, keepdims=True)
    return (torch.from_numpy(standard), torch.from_numpy(samples.best()),
            torch.from_numpy(relative.astype(np.float32)),
            torch.from_numpy(samples.rates.astype(np.float32)))


def _loss(network: torch.nn.Module, batch: _Batch, options: FitOptions) -> torch.Tensor:
    features, best, relative, rates = batch
    logits, rate_logits = network(features).chunk(2, dim=1)
    lost = 1.0 - (torch.softmax(logits, dim=1) * relative).sum(dim=1).mean()
    return functional.cross_entropy(logits, best) + options.gain_weight * lost \
        + options.rate_weight * functional.binary_cross_entropy_with_logits(rate_logits, rates)


def _train(network: torch.nn.Module, training: _Batch, validation: _Batch,
           options: FitOptions) -> None:
    """Run the epochs; leave the weights of the one with the least validation loss."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate,
                                  weight_decay=options.weight_decay)
    least, kept = float('inf'), {}
    for _ in range(options.num_epochs):
        network.train()
        for rows in torch.split(torch.randperm(len(training[0])), options.batch_size):
            optimizer.zero_grad()
            batch = training[0][rows], training[1][rows], training[2][rows], training[3][rows]
            _loss(network, batch, options).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        network.eval()
        with torch.no_grad():
            loss = float(_loss(network, validation if len(validation[0]) else training, options))
        if loss < least:
            least = loss
            kept = {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(kept)


def _as_head(network: torch.nn.Sequential, drafts: tuple[str, ...], mean: Floats,
             scale: Floats) -> RankingHead:
    def array(layer: int, name: str) -> Floats:
        value = getattr(network[layer], name).detach()
        return np.ascontiguousarray((value.T if value.dim() == 2 else value).numpy())

    return RankingHead(drafts=drafts, mean=mean, scale=scale, weight_1=array(0, 'weight'),
                       bias_1=array(0, 'bias'), weight_2=array(3, 'weight'),
                       bias_2=array(3, 'bias'))


def _calibration_error(said: Floats, found: Floats) -> float:
    bins = np.minimum((said * 10).astype(int), 9)
    gaps = [abs(said[bins == number].mean() - found[bins == number].mean())
            * (bins == number).mean() for number in range(10) if (bins == number).any()]
    return float(sum(gaps))
