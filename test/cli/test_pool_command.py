# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec pool`` on real draft files."""

import json

import pytest

from memspec_ros.cli import main
from memspec_ros.testing.tiny_draft import write_tiny_draft


@pytest.fixture
def pool(capsys, tmp_path):
    """Run the command on pool.yaml in a folder with one draft file."""
    write_tiny_draft(tmp_path / 'law.safetensors', domain='law', storage='int8', head_rows=40)

    def run(action, *words):
        code = main.main(['pool', action, str(tmp_path / 'pool.yaml'), *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err
    run.folder = tmp_path
    return run


def add(pool, *words):
    return pool('add', str(pool.folder / 'law.safetensors'), '--name', 'lawyer', *words)


def test_add_makes_the_pool_and_describes_the_draft(pool):
    size = (pool.folder / 'law.safetensors').stat().st_size
    code, out, err = add(pool, '--target', 'pkg:some/model.gguf')
    assert (code, err) == (0, '')
    assert out.splitlines() == [
        f'{pool.folder}/pool.yaml: 1 drafts for pkg:some/model.gguf',
        f'  lawyer (law): int8, {size / 1e6:.1f} MB, 40 output rows, law.safetensors: usable']


def test_show_lists_them_and_json_has_every_field(pool):
    add(pool, '--target', 't', '--general')
    code, out, _ = pool('show')
    assert code == 0
    assert out.startswith('pool: 1 drafts for t\n  lawyer (law): int8')
    code, out, _ = pool('show', '--json')
    shown = json.loads(out)
    assert (code, shown['target'], shown['general']) == (0, 't', 'lawyer')
    assert shown['drafts'][0]['usable'] is True
    assert shown['drafts'][0]['output_rows'] == 40


def test_show_says_what_cannot_be_used_and_why(pool):
    add(pool, '--target', 't')
    (pool.folder / 'law.safetensors').unlink()
    code, out, _ = pool('show')
    assert code == 1
    assert f"CANNOT BE USED: draft 'lawyer': there is no {pool.folder}/law.safetensors" in out
    code, out, _ = pool('show', '--json')
    assert (code, json.loads(out)['drafts'][0]['usable']) == (1, False)


def test_a_new_pool_needs_a_target_and_an_old_one_keeps_it(pool):
    code, _, err = add(pool)
    assert (code, err) == (2, f'memspec: there is no pool {pool.folder}/pool.yaml; to make it, '
                           'name its target with --target\n')
    add(pool, '--target', 't')
    code, _, err = add(pool, '--target', 'u')
    assert code == 2
    assert "is for the target 't', not 'u'" in err


def test_what_is_no_draft_is_refused(pool):
    (pool.folder / 'law.safetensors').write_bytes(b'no draft')
    code, _, err = add(pool, '--target', 't')
    assert code == 2
    assert 'law.safetensors' in err
    assert not (pool.folder / 'pool.yaml').exists()
