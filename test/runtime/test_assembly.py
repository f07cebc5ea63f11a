# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which predictor a runtime takes; the rest of assembling is tested with what it makes."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import memspec_ros
from memspec_ros.config import Settings
from memspec_ros.errors import DataError
from memspec_ros.prediction.predictor import UniformPredictor
from memspec_ros.prediction.target_state import TargetStateRanker
from memspec_ros.runtime import assembly

SHIPPED = Path(memspec_ros.__file__).parent / 'pools' / 'smollm2_135m' / 'predictor.safetensors'
TRAINED_FOR = '805edcf8e19e32736be85571dde898c73c419f1f30cdd24ed4b21e2c3bc5b265'


def choose(checksum, report=lambda _: None, **parameters):
    names = ('general', 'code', 'law', 'math', 'medical', 'robot')
    found = SimpleNamespace(drafts=SimpleNamespace(names=names),
                            pool=SimpleNamespace(predictor_path=SHIPPED),
                            target=SimpleNamespace(hidden_size=576))
    loaded = SimpleNamespace(tokenizer=SimpleNamespace(decode=str), checksum=checksum)
    return assembly._predictor(Settings.from_parameters(parameters), found, loaded, report)


def test_the_pools_predictor_serves_its_target():
    assert isinstance(choose(TRAINED_FOR), TargetStateRanker)


def test_a_pool_serves_another_form_of_its_target_without_its_predictor():
    told = []
    assert isinstance(choose('e' * 64, told.append), UniformPredictor)
    assert 'left out: predictor file' in told[0]
    assert 'was trained for the target 805edcf8' in told[0]


def test_a_predictor_that_was_asked_for_must_be_the_targets():
    with pytest.raises(DataError, match='was trained for the target'):
        choose('e' * 64, **{'runtime.predictor': str(SHIPPED)})
