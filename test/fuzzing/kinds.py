# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Everything that is fuzzed: what a kind of case is drawn from, and the code that it meets."""

import dataclasses
import itertools
import random
import tempfile
from pathlib import Path

import yaml
from goals import GOALS, mutant
from guard import Guard, run_cases
from mutation import mutations
from parameters import SETS, params_files
from tiny_model import write_tiny_model

from memspec_ros.config import Settings, read_params_file
from memspec_ros.models.draft_content import open_draft_file
from memspec_ros.models.draft_kinds import Surroundings
from memspec_ros.models.draft_set import DraftSet
from memspec_ros.models.draft_slots import DraftSlots
from memspec_ros.models.pool import load_pool
from memspec_ros.models.pool_files import unavailable_drafts
from memspec_ros.models.target import load_target
from memspec_ros.models.target_description import describe_target
from memspec_ros.runtime.runtime import MemSpecRuntime

# One case in so many goes beyond the checks: a goal is generated, a target is loaded.
DEEP = 20
MAX_TOKENS = 3
# Mutants of each goal that Hypothesis draws.
NUM_MUTANTS = 19
HIDDEN = 32


def fuzz_goals(num_cases, seed):
    """Goals through the node's own check and the runtime's, in this process."""
    from memspec_ros.node.conversions import request_from_goal, result_to_message
    guard, counter = Guard(limit_memory=False), itertools.count()
    choose = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        runtime = MemSpecRuntime.open(Settings.from_parameters(write_tiny_model(Path(folder))))

        def meet(goal):
            with guard.case(lambda: repr(goal)):
                prepared = runtime.prepare(request_from_goal(goal))
                if next(counter) % DEEP == 0:
                    few = min(MAX_TOKENS, prepared.max_tokens)
                    result_to_message(runtime.generate(
                        dataclasses.replace(prepared, max_tokens=few)))

        def run(goal):
            meet(goal)
            for _ in range(min(NUM_MUTANTS, num_cases - guard.cases)):
                meet(mutant(goal, choose))
        with guard.watching():
            run_cases(GOALS, -(-num_cases // (NUM_MUTANTS + 1)), run, seed)
        runtime.close()
    return guard


def fuzz_parameters(num_cases, seed):
    """Sets of parameters through the node's own setter, on a runtime that takes them over."""
    import rclpy
    from rclpy.parameter import Parameter
    from rclpy.signals import SignalHandlerOptions

    from memspec_ros.node.generate_node import GenerateNode
    guard = Guard(limit_memory=False)
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = GenerateNode(lambda *_, **__: None)
    with tempfile.TemporaryDirectory() as folder:
        runtime = MemSpecRuntime.open(Settings.from_parameters(write_tiny_model(Path(folder))))
        node._runtime = runtime

        def run(values):
            before = node.settings
            with guard.case(lambda: repr(values)):
                result = node.set_parameters_atomically(
                    [Parameter(name, value=value) for name, value in values.items()])
                if not result.successful:
                    guard.refusals += 1
                    assert len(result.reason) > 8, 'a refusal without a cause'
                    assert node.settings is before, 'a refused set changed something'
        with guard.watching():
            run_cases(SETS, num_cases, run, seed)
        node._goals.decode_thread.stop()
        node.destroy_node()
        runtime.close()
    rclpy.shutdown()
    return guard


def fuzz_params_files(num_cases, seed):
    """Params files through what the command line reads them with."""
    guard = Guard()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'params.yaml'

        def run(text):
            path.write_text(text, encoding='utf-8')
            with guard.case(lambda: repr(text)):
                Settings.from_parameters(read_params_file(path))
        with guard.watching():
            run_cases(params_files(), num_cases, run, seed)
    return guard


def fuzz_gguf(num_cases, seed):
    """Target files through the description of configure; some are loaded and run."""
    guard, counter = Guard(), itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        parameters = write_tiny_model(Path(folder))
        path = Path(parameters['target.model'])
        settings = Settings.from_parameters(parameters).target

        def run(data):
            path.write_bytes(data)
            with guard.case(lambda: f'bytes {data[:64].hex()}...'):
                describe_target(settings)
                if next(counter) % DEEP == 0:
                    loaded = load_target(settings)
                    loaded.target.extend(loaded.tokenizer.encode('a robot'), 1)
        with guard.watching():
            run_cases(mutations(path.read_bytes()), num_cases, run, seed)
    return guard


def fuzz_safetensors(num_cases, seed):
    """Draft files through their description and into a slot."""
    guard = Guard()
    with tempfile.TemporaryDirectory() as folder:
        write_tiny_model(Path(folder))
        good, path = Path(folder) / 'code.safetensors', Path(folder) / 'math.safetensors'
        surroundings = Surroundings(form='fp32', context_tokens=64, vocab_size=261,
                                    hidden_size=HIDDEN)
        drafts = DraftSet({'good': lambda: open_draft_file(good, name='good'),
                           'bad': lambda: open_draft_file(path, name='bad')}, surroundings)
        slots = DraftSlots(drafts, num_slots=1, surroundings=surroundings)
        read = slots.source('bad')

        def run(data):
            path.write_bytes(data)
            with guard.case(lambda: f'bytes {data[:64].hex()}...'):
                read(0, should_cancel=lambda: False, throttle=lambda _: None)
        with guard.watching():
            run_cases(mutations(good.read_bytes()), num_cases, run, seed)
    return guard


def fuzz_pool(num_cases, seed):
    """Descriptions of pools, and the files that they then name."""
    guard = Guard()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(write_tiny_model(Path(folder))['draft.pool'])
        document = yaml.safe_load(path.read_text(encoding='utf-8'))
        document['drafts'][0].update(bytes=1, output_rows=2, checksum='ab' * 32, dtype='int8')
        document.update(general='code', tokenizer_checksum='cd' * 32)
        original = yaml.safe_dump(document).encode()

        def run(data):
            path.write_bytes(data)
            with guard.case(lambda: repr(data)):
                unavailable_drafts(load_pool(path))
        with guard.watching():
            run_cases(mutations(original), num_cases, run, seed)
    return guard


KINDS = {'goals': fuzz_goals, 'parameters': fuzz_parameters, 'params_files': fuzz_params_files,
         'gguf': fuzz_gguf, 'safetensors': fuzz_safetensors, 'pool': fuzz_pool}
