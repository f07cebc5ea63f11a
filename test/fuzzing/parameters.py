# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Sets of parameters as a client could send them, and params files."""

import yaml
from hypothesis import strategies as st

from memspec_ros.config import parameter_specs

SPECS = tuple(parameter_specs())
NAMES = tuple(spec.name for spec in SPECS)
TEXT = st.text(st.characters(exclude_categories=('Cs',), exclude_characters='\0'), max_size=20)
INT64 = st.integers(-2**63, 2**63 - 1)
VALUES = st.one_of(st.booleans(), INT64, st.integers(-3, 70), st.floats(), TEXT,
                   st.lists(TEXT, max_size=3), st.lists(INT64, min_size=1, max_size=3),
                   st.lists(st.floats(), min_size=1, max_size=3))


def near(name):
    """Names that are almost a parameter's."""
    return st.integers(0, len(name) - 1).map(lambda at: name[:at] + name[at + 1:])


def value_of(spec):
    """Values that a parameter may take, and others of its type."""
    if spec.choices:
        return st.one_of(st.sampled_from(spec.choices), TEXT)
    if isinstance(spec.default, bool) or spec.low is None:
        return st.one_of(st.just(spec.default), VALUES)
    if isinstance(spec.default, float):
        return st.floats(spec.low - 1, spec.high + 1)
    return st.integers(int(spec.low) - 1, int(spec.high) + 1)


KNOWN = st.sampled_from(SPECS).flatmap(
    lambda spec: st.tuples(st.just(spec.name), st.one_of(value_of(spec), VALUES)))
GOOD = st.sampled_from([spec for spec in SPECS if spec.dynamic]).flatmap(
    lambda spec: st.tuples(st.just(spec.name), value_of(spec)))
UNKNOWN = st.tuples(st.one_of(st.sampled_from(NAMES).flatmap(near), TEXT.filter(bool)), VALUES)
SETS = st.lists(st.one_of(KNOWN, GOOD, GOOD, UNKNOWN), min_size=1, max_size=5).map(dict)

TREES = st.recursive(st.one_of(st.none(), VALUES), lambda inner: st.one_of(
    st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.sampled_from(NAMES), TEXT), inner,
                                                 max_size=4)), max_leaves=12)


@st.composite
def params_files(draw):
    """Texts of params files: right, nested wrongly, or damaged."""
    node = draw(st.sampled_from(('/**', '/memspec', 'memspec', '')))
    key = draw(st.sampled_from(('ros__parameters', 'ros__parameters', 'ros_parameters')))
    text = yaml.safe_dump({node: {key: draw(TREES)}}, allow_unicode=True)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from((
            '', '&a ', '*a', '[', '{', ': ', '- ', '!!python/object:os.system ', '\t', '"',
            '? ', '|', '\x00', '%', '<<: *a\n'))) + text[at + draw(st.integers(0, 3)):]
    return text
