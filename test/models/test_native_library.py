# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Finding and loading the native library, and doing without it."""

from __future__ import annotations

import logging

import pytest

import memspec_ros
from memspec_ros.errors import DependencyError, ModelError, UnsupportedModelError
from memspec_ros.models import native_library

GOOD_PATHS = native_library.library_paths()


@pytest.fixture
def unloaded(monkeypatch, tmp_path):
    """Let the package lie in an empty folder, with nothing loaded."""
    monkeypatch.setattr(memspec_ros, '__path__', [str(tmp_path / 'memspec_ros')])
    native_library.load.cache_clear()
    native_library.is_available.cache_clear()
    yield tmp_path
    native_library.load.cache_clear()
    native_library.is_available.cache_clear()


def test_an_absent_library_is_named_with_the_places(unloaded):
    with pytest.raises(DependencyError, match=r'memspec_ros\.native\.build') as caught:
        native_library.load()
    assert str(unloaded / 'memspec_ros' / 'native') in str(caught.value)


@pytest.mark.usefixtures('unloaded')
def test_absence_is_logged_once(caplog):
    caplog.set_level(logging.INFO)
    assert not native_library.is_available()
    assert not native_library.is_available()
    assert len(caplog.records) == 1
    assert 'native decoder not used' in caplog.text


def test_a_library_of_something_else_is_refused(unloaded):
    folder = unloaded / 'memspec_ros' / 'native'
    folder.mkdir(parents=True)
    (folder / native_library.LIBRARY_NAME).write_bytes(b'not a library')
    with pytest.raises(DependencyError, match='cannot be loaded'):
        native_library.load()


@pytest.mark.skipif(not native_library.is_available(), reason='the native library is not built')
def test_a_damaged_library_gives_way_to_a_good_one(unloaded, monkeypatch):
    good = next(path for path in GOOD_PATHS if path.is_file())
    bad = unloaded / native_library.LIBRARY_NAME
    bad.write_bytes(b'not a library')
    monkeypatch.setattr(native_library, 'library_paths', lambda: [bad, good])
    assert native_library.is_available()


@pytest.mark.skipif(not native_library.is_available(), reason='the native library is not built')
def test_another_interface_version_is_refused(monkeypatch):
    native_library.load.cache_clear()
    monkeypatch.setattr(native_library, 'ABI_VERSION', 999)
    with pytest.raises(DependencyError, match='expected 999'):
        native_library.load()


@pytest.mark.skipif(not native_library.is_available(), reason='the native library is not built')
def test_an_instruction_set_that_is_not_there_is_refused():
    library = native_library.load()
    before = library.memspec_instruction_set()
    assert library.memspec_select_instruction_set(b'abacus') != 0
    assert library.memspec_instruction_set() == before


@pytest.mark.parametrize(('code', 'error', 'words'), [
    (1, ModelError, 'argument is out of range'), (2, UnsupportedModelError, 'does not support'),
    (3, ModelError, 'out of memory'), (4, ModelError, 'in use by another call')])
def test_error_codes_have_words(code, error, words):
    with pytest.raises(error, match=words):
        native_library.check(code, 'a pass of 3 tokens')


def test_no_error_is_no_error():
    native_library.check(0, 'anything')
