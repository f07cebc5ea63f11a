# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Goals as a client could send them: valid ones, and fields as wrong as their types let be."""

import copy

from builtin_interfaces.msg import Duration
from hypothesis import strategies as st

from memspec_ros import msg
from memspec_ros.action import Generate

INT32 = st.integers(-2**31, 2**31 - 1)
FLOATS = st.one_of(st.floats(), st.sampled_from((0.0, 0.7, 1.0, -1.0)))
# ROS strings are UTF-8 and end at a NUL: what else there is does not cross DDS.
TEXT = st.text(st.characters(exclude_categories=('Cs',), exclude_characters='\0'), max_size=60)
# Control tokens of the tiny model, its template's text, and bytes that end inside a character.
NASTY = st.sampled_from(('', ' ', '<|end|>', '<|user|>', '<|assistant|>' * 5, '{{ m }}',
                         'ab' * 40, '\u202e', '\U0001f916' * 20, 'e\u0301' * 30, '%s%n',
                         '\n' * 30, 'a' * 3000, '\x1b[2J', '../../etc/passwd', '{% for x in y %}'))
STRINGS = st.one_of(TEXT, NASTY)
ROLES = st.one_of(st.sampled_from(('system', 'user', 'assistant', 'tool', '', 'robot')), TEXT)

SAMPLING = st.builds(
    msg.SamplingOptions, temperature=FLOATS, top_p=FLOATS, top_k=INT32, min_p=FLOATS,
    repetition_penalty=FLOATS, use_seed=st.booleans(), seed=st.integers(0, 2**64 - 1))
GOOD_SAMPLING = st.builds(
    msg.SamplingOptions, temperature=st.floats(0, 2), top_p=st.floats(0.1, 1),
    top_k=st.integers(0, 50), min_p=st.floats(0, 0.5), repetition_penalty=st.floats(0.5, 2))
MESSAGES = st.lists(st.builds(msg.ChatMessage, role=ROLES, content=STRINGS), max_size=4)
GOOD_MESSAGES = st.lists(st.builds(msg.ChatMessage, role=st.sampled_from(('system', 'user')),
                                   content=STRINGS), min_size=1, max_size=4)
LIMITS = {
    'max_tokens': st.one_of(st.integers(0, 100), INT32),
    'stop': st.lists(STRINGS, max_size=4),
    'timeout': st.builds(Duration, sec=st.one_of(st.just(0), INT32),
                         nanosec=st.integers(0, 2**32 - 1)),
    'priority': INT32, 'draft_length': st.one_of(st.integers(-1, 15), INT32),
    'draft_hint': st.one_of(st.sampled_from(('', 'code', 'ngram', 'codes')), TEXT)}

WRONG = st.builds(
    Generate.Goal, prompt=STRINGS, raw_prompt=st.booleans(), messages=MESSAGES, sampling=SAMPLING,
    response_schema=st.one_of(st.just(''), TEXT), **LIMITS)
ALMOST = st.builds(Generate.Goal, prompt=STRINGS, raw_prompt=st.booleans(),
                   sampling=GOOD_SAMPLING, **LIMITS)
CHATS = st.builds(Generate.Goal, messages=GOOD_MESSAGES, sampling=GOOD_SAMPLING)
GOALS = st.one_of(WRONG, ALMOST, ALMOST, CHATS)

# What the fields of a goal are changed to, beyond what Hypothesis drew for the goal itself.
NUMBERS = (0, 1, -1, 2, 15, 16, 100, 1024, 1025, 2**31 - 1, -2**31)
REALS = (0.0, -0.0, 1.0, 0.5, 1e-300, 1e300, -1.0, 100.0, 100.1, float('nan'), float('inf'),
         float('-inf'))
WORDS = ('', ' ', 'a', '\n', '<|end|>', '<|user|>', 'code', 'codes', 'ngram', 'system', 'tool',
         'robot ' * 400, '\U0001f916', '\u202e', 'e\u0301', '{{ m }}', '{"type": "object"}')
MAX_WRONG = 2


def mutant(goal, choose):
    """Return a copy of a goal with one to three fields changed; ``choose`` is random.Random."""
    changed = copy.deepcopy(goal)
    for _ in range(choose.randint(1, MAX_WRONG)):
        choose.choice(MUTATIONS)(changed, choose)
    return changed


def _number(goal, choose):
    setattr(goal, choose.choice(('max_tokens', 'priority', 'draft_length')),
            choose.choice(NUMBERS))


def _real(goal, choose):
    setattr(goal.sampling, choose.choice(('temperature', 'top_p', 'min_p', 'repetition_penalty')),
            choose.choice(REALS))


def _text(goal, choose):
    name = choose.choice(('prompt', 'prompt', 'draft_hint', 'response_schema'))
    old, word = getattr(goal, name), choose.choice(WORDS)
    at = choose.randint(0, len(old))
    setattr(goal, name, choose.choice((word, old[:at] + word + old[at:], old[at:], '')))


def _stop(goal, choose):
    goal.stop = [choose.choice(WORDS) for _ in range(choose.randint(0, 5))]


def _turns(goal, choose):
    goal.messages = [msg.ChatMessage(role=choose.choice((*WORDS, 'user', 'user', 'assistant')),
                                     content=choose.choice(WORDS))
                     for _ in range(choose.randint(0, 4))]


def _switches(goal, choose):
    goal.raw_prompt = choose.random() < 0.5
    goal.sampling.use_seed = choose.random() < 0.5
    goal.sampling.seed = choose.choice((0, 1, 2**63, 2**64 - 1))
    goal.sampling.top_k = choose.choice(NUMBERS)


def _timeout(goal, choose):
    goal.timeout = Duration(sec=choose.choice(NUMBERS),
                            nanosec=choose.choice((0, 999_999_999, 2**32 - 1)))


MUTATIONS = (_number, _real, _text, _text, _stop, _turns, _switches, _timeout)
