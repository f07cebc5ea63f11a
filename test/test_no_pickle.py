# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Nothing in the package runs what a file says: no pickle, no unsafe YAML, no eval."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / 'memspec_ros'
FILES = sorted(PACKAGE.rglob('*.py'))
MODULES = ('pickle', 'cPickle', 'dill', 'joblib', 'shelve', 'marshal', 'cloudpickle')
# Calls that may run what they read, and the keyword that keeps them from it.
GUARDED = {'torch.load': ('weights_only', True), 'np.load': ('allow_pickle', False),
           'numpy.load': ('allow_pickle', False)}
NEVER = ('eval', 'exec', 'yaml.load', 'yaml.unsafe_load', 'yaml.full_load', 'os.system')


def unsafe(source):
    """Return what in a source runs what it reads, as ``line: what``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] + [getattr(node, 'module', None) or '']
            yield from (f'{node.lineno}: {name}' for name in names
                        if name.partition('.')[0] in MODULES)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            keywords = {one.arg: ast.unparse(one.value) for one in node.keywords}
            wanted = GUARDED.get(name)
            if name in NEVER or (wanted and keywords.get(wanted[0]) != str(wanted[1])):
                yield f'{node.lineno}: {name}'


@pytest.mark.parametrize('path', FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_runs_what_a_file_says(path):
    assert list(unsafe(path.read_text(encoding='utf-8'))) == []


@pytest.mark.parametrize(('source', 'found'), [
    ('import pickle', True), ('from pickle import loads', True), ('import torch.nn', False),
    ('torch.load(path)', True), ('torch.load(path, weights_only=False)', True),
    ('torch.load(path, weights_only=True)', False), ('np.load(path)', True),
    ('np.load(path, allow_pickle=False)', False), ('yaml.load(text)', True),
    ('yaml.safe_load(text)', False), ('eval(text)', True), ('model.eval()', False)])
def test_what_would_run_it_is_found(source, found):
    assert bool(list(unsafe(source))) is found
