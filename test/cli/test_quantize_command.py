# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec quantize``: targets and drafts in fewer bits."""

import pytest

from memspec_ros.cli import main
from memspec_ros.models.checkpoint import open_checkpoint
from memspec_ros.models.draft_file import read_draft_header
from memspec_ros.models.pool import load_pool
from memspec_ros.testing.model_files import write_folder
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, tiny_config


@pytest.fixture
def model(tmp_path):
    write_folder(tmp_path / 'model', RandomCheckpoint(tiny_config(vocab_size=264)))
    return tmp_path / 'model'


def test_a_target(model, tmp_path, capsys):
    words = ['quantize', str(model), str(tmp_path / 'out'), '--group-size', '32', '--asymmetric']
    assert main.main(words) == 0
    file = open_checkpoint(tmp_path / 'out')
    assert (file.gptq.bits, file.gptq.group_size, file.gptq.symmetric) == (4, 32, False)
    assert f'{tmp_path / "out"}: 0.1 MB, of 0.3 MB' in capsys.readouterr().out


@pytest.mark.parametrize('storage', ['int8', 'int4'])
def test_a_draft_and_its_way_into_a_pool(model, tmp_path, capsys, storage):
    draft, pool = tmp_path / 'law.safetensors', tmp_path / 'pool.yaml'
    words = ['quantize', str(model), str(draft), '--storage', storage, '--domain', 'law']
    assert main.main(words) == 0
    assert 'memspec pool add POOL' in capsys.readouterr().out
    card = read_draft_header(draft).card
    assert (card.kind, card.domain, card.storage) == ('independent', 'law', storage)
    assert main.main(['pool', 'add', str(pool), str(draft), '--name', 'law', '--target',
                      str(model)]) == 0
    assert load_pool(pool)['law'].dtype == storage


def test_a_draft_of_a_file_that_is_no_folder(model, tmp_path, capsys):
    assert main.main(['quantize', str(model / 'config.json'), str(tmp_path / 'x'),
                      '--storage', 'int8']) == 2
    assert 'is no folder; a draft is made of one' in capsys.readouterr().err
