# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Result files and what they say of the machine's load."""

from __future__ import annotations

import json
import sys

import pytest

from memspec_ros.bench.result_file import OtherLoad, command_line, read_json, rounded, write_json
from memspec_ros.errors import DataError


def test_numbers_are_rounded_for_reading(tmp_path):
    write_json(tmp_path / 'new' / 'x.json', {'a': {'b': 1 / 3}, 'c': [2, 1e-9 / 3], 'd': True})
    assert read_json(tmp_path / 'new' / 'x.json') == {
        'a': {'b': 0.33333}, 'c': [2, 3.3333e-10], 'd': True}
    assert rounded((123456.7, 'text')) == [123460.0, 'text']


def test_what_is_no_result_is_refused(tmp_path):
    assert read_json(tmp_path / 'none.json') == {}
    (tmp_path / 'x.json').write_text('[1]')
    with pytest.raises(DataError, match='holds no JSON object'):
        read_json(tmp_path / 'x.json')
    (tmp_path / 'x.json').write_text('{"a"')
    with pytest.raises(DataError, match='cannot be read'):
        read_json(tmp_path / 'x.json')


def test_the_command_is_told_as_it_can_be_given_again(monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['/somewhere/memspec', 'bench', '--domains', 'a b'])
    assert command_line() == "memspec bench --domains 'a b'"


def test_the_others_share_is_a_share():
    load = OtherLoad().as_json(own_s=1e9)
    assert load['share_of_others'] == 0.0
    assert 0.0 <= OtherLoad().as_json()['share_of_others'] <= 1.0
    assert load['began_utc'] <= load['ended_utc']
    assert json.dumps(load)
