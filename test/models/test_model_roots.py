# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Models outside of the configured folders are refused before anything of them is read."""

import pytest

from memspec_ros.config import Settings
from memspec_ros.errors import ConfigError
from memspec_ros.models.model_roots import ModelRoots
from memspec_ros.models.pool import load_pool
from memspec_ros.models.pool_files import draft_path
from memspec_ros.runtime.survey import survey
from memspec_ros.testing.model_files import write_gguf
from memspec_ros.testing.random_checkpoint import RandomCheckpoint, tiny_config
from memspec_ros.testing.tiny_draft import write_tiny_draft

CONFIG = tiny_config(vocab_size=261)


@pytest.fixture
def inside(tmp_path):
    folder = tmp_path / 'inside'
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / 'outside'
    folder.mkdir()
    return folder


def test_without_roots_anything_goes(outside):
    assert ModelRoots().require(outside, 'it') == outside


def test_inside_and_outside(inside, outside):
    roots = ModelRoots((str(inside),))
    assert roots.require(inside / 'model.gguf', 'target.model') == inside / 'model.gguf'
    for path in (outside / 'model.gguf', inside / '..' / 'outside' / 'x', inside.parent):
        with pytest.raises(ConfigError, match=r'target\.model is .*, which is outside of '
                                              r'server\.model_roots \(.*inside\)'):
            roots.require(path, 'target.model')


def test_links_are_followed(inside, outside):
    (outside / 'model.gguf').write_bytes(b'')
    (inside / 'model.gguf').symlink_to(outside / 'model.gguf')
    with pytest.raises(ConfigError, match=r'outside/model\.gguf, which is outside'):
        ModelRoots((str(inside),)).require(inside / 'model.gguf', 'target.model')


def test_a_folder_with_a_link_to_elsewhere_is_refused(inside, outside):
    (outside / 'config.json').write_text('{}')
    (inside / 'model').mkdir()
    (inside / 'model' / 'config.json').symlink_to(outside / 'config.json')
    with pytest.raises(ConfigError, match=r'outside/config\.json'):
        ModelRoots((str(inside),)).require(inside / 'model', 'target.model')


def write_pool_of(folder, file):
    (folder / 'pool.yaml').write_text(f'name: p\ntarget: t\ndrafts:\n'
                                      f'- {{name: a, domain: general, file: {file}}}\n')
    return folder / 'pool.yaml'


def settings(inside, **changes):
    return Settings.from_parameters({
        'target.model': str(inside / 'target.gguf'), 'target.device': 'cpu',
        'target.context_tokens': 256, 'server.model_roots': [str(inside)],
        **{name.replace('__', '.'): value for name, value in changes.items()}})


def test_configure_reads_what_is_inside_and_refuses_the_rest(inside, outside):
    write_gguf(inside / 'target.gguf', RandomCheckpoint(CONFIG))
    write_tiny_draft(inside / 'draft', config=None)
    write_tiny_draft(outside / 'draft')
    assert survey(settings(inside)).pool is None
    good = write_pool_of(inside, 'draft')
    assert survey(settings(inside, draft__pool=str(good))).pool is not None
    for name, value in (('target.model', outside / 'target.gguf'),
                        ('target.tokenizer', outside), ('runtime.predictor', outside / 'draft'),
                        ('draft.pool', write_pool_of(outside, 'draft'))):
        value.exists() or value.write_bytes(b'not even read')
        with pytest.raises(ConfigError, match=rf'^{name} is .*outside of server\.model_roots'):
            survey(settings(inside, **{name: str(value)}))


def test_a_pool_cannot_name_a_draft_or_predictor_outside(inside, outside):
    write_gguf(inside / 'target.gguf', RandomCheckpoint(CONFIG))
    write_tiny_draft(outside / 'draft')
    for file in ('../outside/draft', outside / 'draft'):
        pool = write_pool_of(inside, file)
        with pytest.raises(ConfigError, match=r"^draft 'a' is .*outside of server\.model_roots"):
            survey(settings(inside, draft__pool=str(pool)))
    write_tiny_draft(inside / 'draft')
    pool = write_pool_of(inside, 'draft')
    pool.write_text(pool.read_text() + 'predictor: ../outside/draft\n')
    found = survey(settings(inside, draft__pool=str(pool))).pool
    with pytest.raises(ConfigError, match=r'^the predictor of pool .*outside'):
        found.predictor_path  # noqa: B018


def test_a_draft_that_becomes_a_link_to_elsewhere_is_refused_at_its_load(inside, outside):
    write_gguf(inside / 'target.gguf', RandomCheckpoint(CONFIG))
    write_tiny_draft(inside / 'draft')
    write_tiny_draft(outside / 'draft')
    pool = survey(settings(inside, draft__pool=str(write_pool_of(inside, 'draft')))).pool
    (inside / 'draft').unlink()
    (inside / 'draft').symlink_to(outside / 'draft')
    with pytest.raises(ConfigError, match="draft 'a' is"):
        draft_path(pool, pool['a'])


def test_roots_are_no_part_of_a_pool_s_file(inside):
    path = write_pool_of(inside, 'draft')
    path.write_text(path.read_text() + 'roots: []\n')
    with pytest.raises(ConfigError, match="unknown key 'roots'"):
        load_pool(path)


def test_a_pool_whose_aliases_unfold_to_gigabytes_is_refused_at_once(inside):
    lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]']
    lines += [f'a{n}: &a{n} [{", ".join([f"*a{n - 1}"] * 9)}]' for n in range(1, 12)]
    path = inside / 'pool.yaml'
    path.write_text('\n'.join([*lines, 'name: *a11', 'target: t', 'drafts: []']))
    with pytest.raises(ConfigError, match='unknown key'):
        load_pool(path)
    path.write_text('\n'.join(['x: &x', *(f'  {line}' for line in lines), '']))
    with pytest.raises(ConfigError, match='unknown key'):
        load_pool(path)
    path.write_text('\n'.join(['drafts:', *(f'- {line.partition(": ")[2]}' for line in lines),
                               'name: p', 'target: t']))
    with pytest.raises(ConfigError, match='must be a mapping'):
        load_pool(path)
    path.write_text('\n'.join(['drafts: []', 'target: t', 'name:', *(
        f'- {line.partition(": ")[2]}' for line in lines)]))
    with pytest.raises(ConfigError, match='it must be text'):
        load_pool(path)
