# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Distilling a pool, end to end on a tiny target: files, resuming, and what is refused."""

import dataclasses
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_target import make_target

from memspec_ros.errors import ConfigError, DataError
from memspec_ros.models.draft_file import read_draft_weights
from memspec_ros.models.pool import load_pool
from memspec_ros.training import trainer as trainer_module
from memspec_ros.training.corpus_file import Conversation
from memspec_ros.training.distill_data import Split
from memspec_ros.training.distill_pool import DistillOptions, PoolDistiller
from memspec_ros.training.trained_target import TrainedTarget
from memspec_ros.training.trainer import TrainerOptions

OPTIONS = DistillOptions(
    rows=24, width=16, intermediate=32, window=32, num_soft=4, storage='int8',
    general=TrainerOptions(epochs=2, slots_per_batch=200, checkpoint_steps=3, metrics_steps=4),
    specialist=TrainerOptions(epochs=1, slots_per_batch=200, checkpoint_steps=3))


def make_conversations(count=40):
    """Answers count upwards from the prompt's last token, so there is something to learn."""
    generator = torch.Generator().manual_seed(0)
    items = []
    for number in range(count):
        prompt = torch.randint(0, 24, (6,), generator=generator).tolist()
        output = [(prompt[-1] + step) % 24 for step in range(1, 20)]
        items.append(Conversation(
            id=str(number), domain='math' if number % 2 else 'general',
            prompt_ids=tuple(prompt), output_ids=tuple(output),
            states=torch.randn(24, 16, generator=generator).half()))
    return items


def make_distiller(folder, options=OPTIONS):
    return PoolDistiller(folder, make_target(), Split.make(make_conversations()), options,
                         reference='tiny')


def test_makes_a_pool_that_loads(tmp_path):
    distiller = make_distiller(tmp_path)
    distiller.general()
    distiller.specialist('math')
    pool = load_pool(tmp_path / 'pool.yaml')
    assert [entry.name for entry in pool.drafts] == ['general', 'math']
    assert pool.general_draft == 'general'
    header, _ = read_draft_weights(tmp_path / 'math.safetensors')
    assert header.card.training['answers'] < 40
    assert header.card.training['held_out_committed_per_iteration']


def test_files_have_their_head_ready(tmp_path):
    file = make_distiller(tmp_path).general()
    _, weights = read_draft_weights(file)
    rows = make_target().weights.embedding[weights['output_token_ids'].long()]
    exact = rows @ weights['out']
    assert 0 < (weights['head'] - exact).abs().max() <= exact.abs().max() / 200


def test_learns(tmp_path):
    options = DistillOptions(
        rows=24, width=16, intermediate=32, window=32, num_soft=4,
        general=TrainerOptions(epochs=20, slots_per_batch=200, metrics_steps=10))
    make_distiller(tmp_path, options).general()
    curve = json.loads((tmp_path / 'metrics' / 'general.json').read_text())
    first, last = (sum(point['train_committed'].values()) for point in (curve[0], curve[-1]))
    assert last > first + 1.0


def test_an_independent_draft_learns_too(tmp_path):
    options = DistillOptions(
        kind='independent', layers=1, rows=24, width=16, intermediate=32, window=64, num_soft=4,
        general=TrainerOptions(epochs=30, slots_per_batch=200, metrics_steps=10))
    make_distiller(tmp_path, options).general()
    curve = json.loads((tmp_path / 'metrics' / 'general.json').read_text())
    first, last = (sum(point['train_committed'].values()) for point in (curve[0], curve[-1]))
    assert last > first + 1.0
    header, _ = read_draft_weights(tmp_path / 'general.safetensors')
    assert header.card.kind == 'independent'


def test_an_unknown_kind_is_refused():
    with pytest.raises(ConfigError, match="kind is 'medusa'; it must be one of independent, "):
        DistillOptions(kind='medusa')


def test_a_killed_run_ends_in_the_same_bytes(tmp_path, monkeypatch):
    make_distiller(tmp_path / 'whole').general()
    learn = trainer_module.Trainer._learn

    def killed_at_step_five(self, batch, step, *rest):
        if step == 5:
            raise KeyboardInterrupt
        return learn(self, batch, step, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(trainer_module.Trainer, '_learn', killed_at_step_five)
        with pytest.raises(KeyboardInterrupt):
            make_distiller(tmp_path / 'resumed').general()
    assert (tmp_path / 'resumed' / 'general.checkpoint').exists()
    make_distiller(tmp_path / 'resumed').general()
    _, whole = read_draft_weights(tmp_path / 'whole' / 'general.safetensors')
    _, resumed = read_draft_weights(tmp_path / 'resumed' / 'general.safetensors')
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert not (tmp_path / 'resumed' / 'general.checkpoint').exists()


def test_a_checkpoint_of_other_options_is_refused(tmp_path, monkeypatch):
    def stop(self, _batch, step, *_rest):
        self._step = step
        self._save()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(trainer_module.Trainer, '_learn', stop)
        with pytest.raises(KeyboardInterrupt):
            make_distiller(tmp_path).general()
    other = DistillOptions(rows=24, width=16, intermediate=32, window=32, num_soft=5)
    with pytest.raises(DataError, match='is of another run'):
        make_distiller(tmp_path, other).general()


def test_a_damaged_checkpoint_is_refused(tmp_path):
    (tmp_path / 'general.checkpoint').write_bytes(b'not a checkpoint')
    with pytest.raises(DataError, match=r'general\.checkpoint is damaged'):
        make_distiller(tmp_path).general()


def test_a_specialist_goes_part_of_the_way_from_the_general_draft(tmp_path):
    weights = {}
    for blend in (0.25, 1.0):
        folder = tmp_path / str(blend)
        options = dataclasses.replace(OPTIONS, blend=blend, storage='fp32')
        distiller = make_distiller(folder, options)
        distiller.general()
        distiller.specialist('math')
        weights[blend] = [read_draft_weights(folder / f'{name}.safetensors')[1]
                          for name in ('general', 'math')]
    general, part = weights[0.25]
    trained = weights[1.0][1]
    assert not torch.equal(trained['query'], general['query'])
    torch.testing.assert_close(part['query'], general['query'].lerp(trained['query'], 0.25))
    assert torch.equal(part['output_token_ids'], general['output_token_ids'])


def test_a_blend_out_of_range_is_refused():
    with pytest.raises(ConfigError, match=r'blend is 1\.5; it must be in \(0, 1\]'):
        DistillOptions(blend=1.5)


TWO_PROCESSES = """
import sys
sys.path[:0] = {paths!r}
from pathlib import Path
import torch
import test_distill as scene
distiller = scene.make_distiller(Path({folder!r}))
distiller.general()
distiller.specialist('math')
torch.distributed.destroy_process_group()
"""


def test_two_processes_train_one_draft(tmp_path):
    here = Path(__file__).resolve()
    code = TWO_PROCESSES.format(paths=[str(here.parents[2]), str(here.parent)],
                                folder=str(tmp_path))
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    common = {**os.environ, 'WORLD_SIZE': '2', 'MASTER_ADDR': '127.0.0.1',
              'MASTER_PORT': str(port), 'OMP_NUM_THREADS': '1'}
    workers = [subprocess.Popen([sys.executable, '-c', code], env={**common, 'RANK': str(rank)})
               for rank in range(2)]
    assert [worker.wait(240) for worker in workers] == [0, 0]
    header, _ = read_draft_weights(tmp_path / 'general.safetensors')
    assert header.card.training['steps'] > 5
    assert (tmp_path / 'math.safetensors').exists()
    assert not list(tmp_path.glob('*.checkpoint'))


def test_an_empty_domain_is_refused(tmp_path):
    distiller = make_distiller(tmp_path)
    distiller.general()
    with pytest.raises(DataError, match=r"no answers of domain 'law' \(it has general, math\)"):
        distiller.specialist('law')


def test_a_specialist_needs_the_general_draft(tmp_path):
    with pytest.raises(ConfigError, match='train the general draft first'):
        make_distiller(tmp_path).specialist('math')


def test_a_prompt_is_never_on_both_sides():
    items = make_conversations(200)
    split = Split.make(items + items, share=0.2)
    train = {item.prompt_ids for item in split.train}
    assert split.held_out
    assert not train & {item.prompt_ids for item in split.held_out}


def test_target_type():
    assert isinstance(make_target(), TrainedTarget)
