# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The acceptance table says what the running loop commits, exactly; and what traces refuse."""

import dataclasses
import functools
import time

import pytest
import torch
from tiny_target import CONFIG, make_target

from memspec_ros.decoding.generation import Generation
from memspec_ros.decoding.iteration import ModelExecutor
from memspec_ros.decoding.prefill import Prefill
from memspec_ros.decoding.text_stream import TextStream
from memspec_ros.decoding.token_choice import TokenChoice
from memspec_ros.errors import ConfigError, DataError
from memspec_ros.models.decoder import Decoder
from memspec_ros.models.draft_file import read_draft_weights
from memspec_ros.models.fast_target import FastTarget
from memspec_ros.models.feature_draft import FeatureDraft
from memspec_ros.models.feature_network import FeatureConfig
from memspec_ros.models.feature_slots import FeatureEntries, TorchSlots
from memspec_ros.models.ngram_draft import NgramDraft
from memspec_ros.models.pool import load_pool
from memspec_ros.models.row_decoders import TorchRow
from memspec_ros.records import SamplingOptions
from memspec_ros.replay.acceptance_table import read_acceptance_table
from memspec_ros.training import trace as trace_module
from memspec_ros.training.batch_decode import BatchDecoder
from memspec_ros.training.corpus_file import Conversation
from memspec_ros.training.distill_data import Split
from memspec_ros.training.distill_pool import DistillOptions, PoolDistiller
from memspec_ros.training.draft_matrix import DraftMatrix, num_iterations
from memspec_ros.training.independent_trace import independent_draft
from memspec_ros.training.trace import PoolTracer, TraceOptions
from memspec_ros.training.trainer import TrainerOptions

MAX_TOKENS, STEPS = 40, 5
OPTIONS = DistillOptions(
    rows=24, width=16, intermediate=32, window=32, num_soft=4, storage='fp32',
    general=TrainerOptions(epochs=12, slots_per_batch=400),
    specialist=TrainerOptions(epochs=2, slots_per_batch=400))


def _prompt_length(number):
    """Some prompts are longer than the window."""
    return 45 + number if number % 6 == 5 else 3 + number % 9


@functools.cache
def answers(count=24):
    """What the tiny target answers to random prompts, with states."""
    target = make_target()
    generator = torch.Generator().manual_seed(1)
    prompts = [torch.randint(2, CONFIG.vocab_size, (_prompt_length(number),),
                             generator=generator).tolist()
               for number in range(count)]
    decoder = BatchDecoder(target.rows(num_rows=8, capacity=112))
    made = sorted(decoder.answer(prompts, max_new_tokens=MAX_TOKENS,
                                 end_ids=target.tokenizer.end_ids), key=lambda a: a.index)
    return [Conversation(id=str(a.index), domain='math' if a.index % 2 else 'general',
                         prompt_ids=tuple(prompts[a.index]), output_ids=tuple(a.output_ids),
                         states=a.states) for a in made]


@pytest.fixture(scope='module')
def pool_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('pool')
    distiller = PoolDistiller(folder, make_target(), Split.make(answers(), share=0.0), OPTIONS,
                              reference='tiny')
    distiller.general()
    distiller.specialist('math')
    return folder


def make_tracer(folder, **options):
    return PoolTracer(load_pool(folder / 'pool.yaml'), make_target(),
                      TraceOptions(steps=STEPS, **options))


@pytest.fixture(scope='module')
def independent_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('independent')
    options = dataclasses.replace(OPTIONS, kind='independent', layers=1)
    PoolDistiller(folder, make_target(), Split.make(answers(), share=0.0), options,
                  reference='tiny').general()
    return folder


@pytest.fixture(scope='module')
def table(pool_folder):
    return make_tracer(pool_folder).trace(answers(), pool_folder / 'parts')


def feature_draft(folder, name):
    header, weights = read_draft_weights(folder / f'{name}.safetensors')
    config = FeatureConfig.from_architecture(header.card.architecture)
    rows, embedding = weights.pop('output_token_ids'), make_target().weights.embedding
    weights['head'] = embedding[rows.long()] @ weights['out']
    memory = torch.zeros(2, FeatureEntries.capacity(config), config.width)
    slots = TorchSlots(config, weights, row_tokens=rows, embedding=embedding, memory=memory)
    return FeatureDraft(name, config, slots)


def run_loop(draft, prompt, draft_length):
    """Committed tokens of each iteration of the real loop, and the output."""
    tiny = make_target()
    target = FastTarget(TorchRow(Decoder(tiny.config, tiny.weights), context_tokens=160),
                        context_tokens=160, end_ids=tiny.tokenizer.end_ids)
    generation = Generation(target=target, prompt=prompt, max_tokens=MAX_TOKENS,
                            text=TextStream(lambda token: b'%d ' % token))
    for _ in Prefill(target, 16).run(prompt):
        pass
    executor = ModelExecutor(target=target, drafts={'d': draft}, generation=generation,
                             choice=TokenChoice(SamplingOptions(), 0), clock=time.perf_counter)
    draft.reset()
    committed = []
    while generation.finish_reason is None:
        committed.append(executor.iterate('d', draft_length).num_committed)
    return committed, tuple(generation.output)


@pytest.mark.parametrize('name', ['general', 'math', 'ngram'])
@pytest.mark.parametrize('draft_length', [1, 3, 5])
def test_the_table_says_what_the_running_loop_commits(pool_folder, table, name, draft_length):
    draft = NgramDraft() if name == 'ngram' else feature_draft(pool_folder, name)
    total = 0
    for goal in table.goals:
        committed, output = run_loop(draft, goal.prompt_ids, draft_length)
        assert output == goal.output_ids
        assert len(committed) == num_iterations(goal, name, draft_length)
        total += len(output) - len(committed)
    assert total > 20, 'nothing was accepted, so nothing was compared'


def test_an_independent_draft_is_traced_as_it_runs(independent_folder):
    goals = make_tracer(independent_folder).trace(answers()[:6],
                                                  independent_folder / 'parts').goals
    header, weights = read_draft_weights(independent_folder / 'general.safetensors')
    draft = independent_draft('general', header, weights, make_target())
    for goal in goals:
        committed, _ = run_loop(draft, goal.prompt_ids, 3)
        assert len(committed) == num_iterations(goal, 'general', 3)
    assert sum(sum(goal.runs['general']) for goal in goals) > 10


def test_some_outputs_end_and_some_do_not(table):
    assert {goal.ended for goal in table.goals} == {True, False}


def test_survives_writing_and_reading(tmp_path, table):
    table.write(tmp_path / 'trace.safetensors')
    again = read_acceptance_table(tmp_path / 'trace.safetensors')
    assert again == table


def test_states_are_kept_on_request(pool_folder, tmp_path):
    traced = make_tracer(pool_folder, keep_states=True).trace(answers()[:3], tmp_path / 'parts')
    traced.write(tmp_path / 't')
    goal = read_acceptance_table(tmp_path / 't').goals[0]
    assert goal.states.shape == (len(goal.prompt_ids) + len(goal.output_ids), CONFIG.hidden_size)


def test_a_killed_trace_ends_in_the_same_bytes(pool_folder, tmp_path, monkeypatch, table):
    monkeypatch.setattr(trace_module, 'PART_GOALS', 5)
    judged = []

    def killed(self, item, states):
        judged.append(item.id)
        if len(judged) == 13:
            raise KeyboardInterrupt
        return whole_goal(self, item, states)

    whole_goal = PoolTracer._goal
    with monkeypatch.context() as patch:
        patch.setattr(PoolTracer, '_goal', killed)
        with pytest.raises(KeyboardInterrupt):
            make_tracer(pool_folder).trace(answers(), tmp_path / 'parts')
        traced = make_tracer(pool_folder).trace(answers(), tmp_path / 'parts')
    # Ten goals were in finished parts; the others were judged again.
    assert len(judged) == 13 + 14
    assert traced == table
    assert not (tmp_path / 'parts').exists()


def test_goal_tables_carry_the_limit(table):
    for goal, made in zip(table.goals, table.goal_tables(), strict=True):
        assert made.num_tokens == len(goal.output_ids)
        assert made.max_tokens == (MAX_TOKENS if goal.ended else len(goal.output_ids))


def test_the_matrix_counts_iterations(table):
    matrix = DraftMatrix.from_table(table)
    goals = [goal for goal in table.goals if goal.domain == 'math']
    tokens = sum(len(goal.output_ids) for goal in goals)
    iterations = sum(num_iterations(goal, 'math', 3) for goal in goals)
    assert matrix.committed['math']['math'] == tokens / iterations
    assert matrix.prompts == {'general': 12, 'math': 12}
    assert matrix.rows()[0].split() == ['draft', 'MB', 'general', 'math', 'gmean']


def test_a_trace_of_another_target_is_refused(tmp_path, table):
    table.write(tmp_path / 't')
    with pytest.raises(DataError, match='is of a target with checksum ffffffffffff, not abcabc'):
        read_acceptance_table(tmp_path / 't', target='abcabc')


def test_a_truncated_trace_is_refused(tmp_path, table):
    table.write(tmp_path / 't')
    data = (tmp_path / 't').read_bytes()
    (tmp_path / 't').write_bytes(data[:-10])
    with pytest.raises(DataError, match='t cannot be read'):
        read_acceptance_table(tmp_path / 't')


def test_no_answers_are_refused(pool_folder, tmp_path):
    with pytest.raises(DataError, match='no answers to trace'):
        make_tracer(pool_folder).trace([], tmp_path / 'parts')


def test_steps_out_of_range_are_refused():
    with pytest.raises(ConfigError, match=r'steps is 99; it must be in \[1, 15\]'):
        TraceOptions(steps=99)
