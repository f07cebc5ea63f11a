# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Every strategy, through controller, draft cache and the real loop, gives the same tokens.

The models are scripted; loads end, fail and are cancelled at random moments.
"""

from __future__ import annotations

import random

import pytest

from memspec_ros.config import POLICIES, RuntimeSettings
from memspec_ros.decoding.generation import Generation
from memspec_ros.decoding.iteration import ModelExecutor
from memspec_ros.decoding.text_stream import TextStream
from memspec_ros.decoding.token_choice import TokenChoice
from memspec_ros.records import SamplingOptions
from memspec_ros.replay.virtual_clock import VirtualClock
from memspec_ros.runtime.controller import Controller
from memspec_ros.runtime.cost_model import CostModel
from memspec_ros.runtime.draft_cache import DraftCache
from memspec_ros.runtime.plan import PoolDraft
from memspec_ros.runtime.policies import policy_factory
from memspec_ros.testing.fixed_predictor import FixedPredictor
from memspec_ros.testing.manual_loader import ManualLoader
from memspec_ros.testing.scripted_model import ScriptedDraft, ScriptedTarget

NAMES = ('general', 'code', 'math', 'law')
PROMPT = [3, 1, 4]


class Serving:
    """A controller over scripted models whose time and loads pass at random."""

    def __init__(self, policy, seed, *, draft_length=-1, sampling=None):
        self.rng = random.Random(seed)
        self.clock = VirtualClock()
        self.loader = ManualLoader(cancels_at_once=False)
        self.target = ScriptedTarget(seed=7, peak=0.5 if sampling else 4.0)
        self.sampling = sampling or SamplingOptions()
        self.drafts = {name: ScriptedDraft(
            name, rule=self.target.rule, agrees=lambda at, step=step: at % step != 0)
            for step, name in enumerate((*NAMES, 'ngram'), start=2)}
        self.cache = DraftCache(drafts=[PoolDraft(name=name, domain=name) for name in NAMES],
                                loader=self.loader, num_slots=2, clock=self.clock)
        cost_model = CostModel(max_draft_length=7)
        predictor = FixedPredictor(lambda num_output: {
            name: random.Random(f'{seed} {num_output} {name}').random() for name in NAMES})
        self.controller = Controller(
            settings=RuntimeSettings(policy=policy, draft_length=draft_length,
                                     oracle_draft='law', scheduling_interval=3),
            draft_cache=self.cache, cost_model=cost_model, clock=self.clock,
            always_resident=('ngram', ''),
            make_policy=policy_factory(drafts=[PoolDraft(name=name) for name in NAMES],
                                       predictor=predictor, cost_model=cost_model))

    def answer(self, max_tokens=120, on_iteration=None):
        """Decode one goal; return its tokens."""
        generation = Generation(target=self.target, prompt=PROMPT, max_tokens=max_tokens,
                                text=TextStream(lambda _: b'x', ()))
        self.target.rollback(0)
        self.target.extend(PROMPT[:-1], 0)
        executor = ModelExecutor(
            target=self.target, generation=generation, clock=self.clock,
            drafts=self.drafts,
            choice=TokenChoice(self.sampling, 11))
        for _ in self.controller.decode(generation, executor):
            self.live_on()
            if on_iteration is not None:
                on_iteration()
        return generation.tokens

    def live_on(self):
        """Let time pass; end or fail a load now and then."""
        self.clock.advance(0.02 * self.rng.random())
        if self.loader.in_flight and self.rng.random() < 0.4:
            draft = self.rng.choice(list(self.loader.in_flight))
            if self.rng.random() < 0.2:
                self.loader.fail(draft, 'unreadable')
            else:
                self.loader.finish(draft)


def plain(sampling=None):
    return Serving('general_static', 0, draft_length=0, sampling=sampling).answer()


@pytest.mark.parametrize('policy', POLICIES)
@pytest.mark.parametrize('draft_length', [3, -1])
def test_no_strategy_changes_a_token(policy, draft_length):
    for seed in range(3):
        serving = Serving(policy, seed, draft_length=draft_length)
        assert serving.answer() == plain()
        assert serving.answer() == plain()


@pytest.mark.parametrize('policy', ['memspec', 'memspec_online', 'mab_async'])
def test_no_strategy_changes_a_sampled_token(policy):
    sampling = SamplingOptions(temperature=0.9, top_p=0.95)
    for seed in range(3):
        assert Serving(policy, seed, sampling=sampling).answer() == plain(sampling)


def test_ten_thousand_iterations_keep_the_bounds_at_every_instant():
    serving = Serving('memspec', 1)
    counts = {'iterations': 0}

    def check():
        counts['iterations'] += 1
        assert serving.cache.num_occupied <= serving.cache.capacity <= 2
        if counts['iterations'] % 50 == 0:
            serving.cache.set_capacity(serving.rng.choice((1, 2)))

    while counts['iterations'] < 10_000:
        serving.answer(max_tokens=400, on_iteration=check)
    counters = serving.cache.counters
    assert min(counters.num_loads, counters.num_evictions, counters.num_failed_loads,
               counters.num_cancelled_loads) > 20
