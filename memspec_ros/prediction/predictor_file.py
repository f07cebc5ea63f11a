# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The predictor file: a ranking head with what it was trained for, as one safetensors file.

Tensors: those of ``RankingHead``, float32. Metadata: ``format`` (memspec-predictor-1),
``kind`` (target_state or encoder), ``inputs`` (prompt, recent, both), ``drafts`` (JSON list, in
the order of the outputs), ``recent_tokens`` (T in training), ``target`` (fingerprint of the target
it was trained for, or empty) and ``note`` (how it was trained and how well it does, JSON).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from memspec_ros.atomic_file import written_beside
from memspec_ros.errors import DataError, ModelNotFoundError
from memspec_ros.prediction import encoder, target_state
from memspec_ros.prediction.beside import PredictorBeside
from memspec_ros.prediction.encoder import EncoderRanker, MiniLmEncoder, TextOf
from memspec_ros.prediction.predictor import Predictor
from memspec_ros.prediction.ranking_head import TENSORS, RankingHead
from memspec_ros.prediction.target_state import TargetStateRanker

FORMAT = 'memspec-predictor-1'
KINDS = ('target_state', 'encoder')
INPUTS = ('prompt', 'recent', 'both')
REFRESH_TOKENS = 16


@dataclass(frozen=True, kw_only=True)
class PredictorFile:
    """A trained predictor as it is kept.

    :raises DataError: kind or inputs are none of the known ones.
    """

    head: RankingHead
    kind: str
    inputs: str = 'both'
    recent_tokens: int = 64
    target: str = ''
    note: str = '{}'

    def __post_init__(self) -> None:
        for name, value, known in (('kind', self.kind, KINDS), ('inputs', self.inputs, INPUTS)):
            if value not in known:
                raise DataError(f"predictor {name} is '{value}'; it must be one of "
                                f'{", ".join(known)}')

    def save(self, path: Path) -> None:
        """Write the file, beside and renamed."""
        metadata = {'format': FORMAT, 'kind': self.kind, 'inputs': self.inputs,
                    'drafts': json.dumps(self.head.drafts), 'target': self.target,
                    'recent_tokens': str(self.recent_tokens), 'note': self.note}
        with written_beside(path) as file:
            file.write(save(dict(self.head.tensors()), metadata))

    @classmethod
    def load(cls, path: Path) -> PredictorFile:
        """Read a file.

        :raises ModelNotFoundError: there is none.
        :raises DataError: it is damaged, or no predictor.
        """
        if not path.is_file():
            raise ModelNotFoundError(f'predictor file {path} does not exist; memspec '
                                     'train-predictor makes one, and an empty runtime.predictor '
                                     'takes a uniform prior')
        try:
            with safe_open(path, framework='numpy') as file:
                metadata = file.metadata() or {}
                if metadata.get('format') != FORMAT:
                    raise DataError(f"{path} has format '{metadata.get('format')}'; a predictor "
                                    f"file has '{FORMAT}'")
                head = RankingHead(drafts=tuple(json.loads(metadata['drafts'])),
                                   **{name: file.get_tensor(name) for name in TENSORS})
            return cls(head=head, kind=metadata['kind'], inputs=metadata['inputs'],
                       recent_tokens=int(metadata['recent_tokens']), target=metadata['target'],
                       note=metadata['note'])
        except (SafetensorError, KeyError, ValueError, OSError) as error:
            raise DataError(f'predictor file {path} is damaged: {error}') from error


def open_predictor(path: Path, *, drafts: Sequence[str], hidden_size: int,
                   text_of: TextOf, target: str = '') -> Predictor:
    """Open a predictor for a pool and a target; one that takes long runs beside decoding.

    :param drafts: the pool's; the predictor must know each of them.
    :param hidden_size: of the target.
    :param text_of: the text of token ids, for a predictor that reads text.
    :param target: fingerprint of the target; '' does not compare.
    :raises ModelNotFoundError, DataError: no such file, or it does not go with pool or target.
    :raises DependencyError: it needs an encoder that is not installed.
    """
    opened = PredictorFile.load(path)
    if missing := [name for name in drafts if name not in opened.head.drafts]:
        raise DataError(f'predictor file {path} ranks {", ".join(opened.head.drafts)}; the pool '
                        f'also has {", ".join(missing)}')
    if target and opened.target and target != opened.target:
        raise DataError(f'predictor file {path} was trained for the target {opened.target}; this '
                        f'one is {target}')
    _check_width(path, opened, hidden_size)
    if opened.kind == 'encoder':
        return PredictorBeside(EncoderRanker(
            opened.head, MiniLmEncoder(), text_of=text_of, inputs=opened.inputs,
            refresh_tokens=REFRESH_TOKENS))
    return TargetStateRanker(opened.head, inputs=opened.inputs)


def _check_width(path: Path, opened: PredictorFile, hidden_size: int) -> None:
    parts, width = (encoder.PARTS, MiniLmEncoder.width) if opened.kind == 'encoder' else \
        (target_state.PARTS, hidden_size)
    num_features = width * len(parts[opened.inputs])
    if opened.head.num_features != num_features:
        raise DataError(f'predictor file {path} takes {opened.head.num_features} features; '
                        f"inputs '{opened.inputs}' of width {width} give {num_features}")
