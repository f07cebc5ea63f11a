# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Distilling and tracing, killed by SIGKILL in a process of their own: the same files after all.

(test_corpus_job.py does this to a corpus.)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import test_distill
import test_trace
import torch

from memspec_ros.models.draft_file import read_draft_weights
from memspec_ros.training import trace as trace_module

KILLED_AT = """
import os, signal, sys
sys.path[:0] = {paths!r}
from pathlib import Path
import torch
torch.set_num_threads({threads})  # sums depend on it
import {scene} as scene
folder = Path({folder!r})
def killed_at(place, name, count):
    calls, whole = [], getattr(place, name)
    def counted(*args, **options):
        calls.append(1)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*args, **options)
    setattr(place, name, counted)
"""
DISTILL = """
killed_at(scene.trainer_module.Trainer, '_learn', 5)
scene.make_distiller(folder).general()
"""
TRACE = """
scene.trace_module.PART_GOALS = 5
killed_at(scene.PoolTracer, '_goal', 13)
scene.make_tracer(Path({pool!r})).trace(scene.answers(), folder / 'parts')
"""


def run_until_killed(scene, folder, action):
    here = Path(__file__).resolve()
    code = KILLED_AT.format(paths=[str(here.parents[2]), str(here.parent)], scene=scene,
                            folder=str(folder), threads=torch.get_num_threads())
    ended = subprocess.run([sys.executable, '-c', code + action], env={**os.environ},
                           check=False)
    assert ended.returncode == -signal.SIGKILL


def test_distilling_goes_on_to_the_same_draft(tmp_path):
    test_distill.make_distiller(tmp_path / 'whole').general()
    run_until_killed('test_distill', tmp_path / 'killed', DISTILL)
    assert (tmp_path / 'killed' / 'general.checkpoint').exists()
    test_distill.make_distiller(tmp_path / 'killed').general()
    whole, killed = (read_draft_weights(tmp_path / folder / 'general.safetensors')[1]
                     for folder in ('whole', 'killed'))
    assert whole.keys() == killed.keys()
    assert all(torch.equal(whole[name], killed[name]) for name in whole)
    assert not (tmp_path / 'killed' / 'general.checkpoint').exists()


def test_tracing_goes_on_to_the_same_bytes(tmp_path, monkeypatch):
    pool = tmp_path / 'pool'
    test_distill.PoolDistiller(pool, test_trace.make_target(), test_trace.Split.make(
        test_trace.answers(), share=0.0), test_trace.OPTIONS, reference='tiny').general()
    test_trace.make_tracer(pool).trace(test_trace.answers(), tmp_path / 'parts').write(
        tmp_path / 'whole')
    run_until_killed('test_trace', tmp_path / 'killed', TRACE.format(pool=str(pool)))
    assert len(list((tmp_path / 'killed' / 'parts').glob('*.safetensors'))) == 2
    monkeypatch.setattr(trace_module, 'PART_GOALS', 5)
    test_trace.make_tracer(pool).trace(test_trace.answers(), tmp_path / 'killed' / 'parts').write(
        tmp_path / 'resumed')
    assert (tmp_path / 'whole').read_bytes() == (tmp_path / 'resumed').read_bytes()
