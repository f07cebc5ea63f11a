# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec check`` of the Jetson params files, on headers of the real checkpoints' shapes.

The hand counts are those in the files' own comments.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from memspec_ros.cli import check, main
from memspec_ros.errors import ConfigError
from memspec_ros.testing.jetson_files import JETSONS, jetson_settings

CONFIG = Path(__file__).resolve().parents[2] / 'config'
MB = 1_000_000
ROW = re.compile(r'#   (int4|int8|bf16) +(\d+) MB +(\d+) MB +(\d) +(\d) +(\d)')


def hand_count_mb(name):
    text = (CONFIG / f'{name}.yaml').read_text(encoding='utf-8')
    return float(re.search(r'headroom: (\d+) MB', text)[1])


def run_check(tmp_path, capsys, settings, *words):
    path = tmp_path / 'params.yaml'
    tree = {}
    for name, value in settings.as_parameters().items():
        group, leaf = name.split('.')
        tree.setdefault(group, {})[leaf] = list(value) if isinstance(value, tuple) else value
    path.write_text(yaml.safe_dump({'/**': {'ros__parameters': tree}}), encoding='utf-8')
    code = main.main(['check', str(path), *words])
    return code, capsys.readouterr().out


@pytest.mark.parametrize('name', JETSONS)
@pytest.mark.parametrize('stored', ['bf16', 'int8', 'int4'])
def test_the_sum_is_the_hand_count(tmp_path, capsys, name, stored):
    settings = jetson_settings(tmp_path, CONFIG / f'{name}.yaml', stored=stored)
    memory = '30GB' if name == 'agx_orin' else '8GB'
    code, out = run_check(tmp_path, capsys, settings, '--memory', memory, '--json')
    report = json.loads(out)
    assert (code, report['verdict'], report['problem']) == (0, 'fits', '')
    assert report['sum'] / MB == pytest.approx(hand_count_mb(name), rel=0.03)
    assert report['cache_capacity'] == (4 if name == 'agx_orin' else 2)
    assert report['available'] == check.parse_bytes(memory)


@pytest.mark.parametrize('name', ['orin_nano', 'orin_nano_llama2'])
def test_the_table_of_what_fits_is_true(tmp_path, name):
    rows = ROW.findall((CONFIG / f'{name}.yaml').read_text(encoding='utf-8'))
    assert [row[0] for row in rows] == ['int4', 'int8', 'bf16']
    for dtype, slot_mb, sum_mb, *largest in rows:
        settings = jetson_settings(tmp_path, CONFIG / f'{name}.yaml', dtype=dtype)
        found = [check.examine(settings, round(gigabytes * 1e9)).budget
                 for gigabytes in (7.0, 7.4, 8.0)]
        items = {item.name: item.num_bytes for item in found[0].items}
        slots = items['2 x draft slot'] + items['2 x draft KV cache']
        assert slots / 2 / MB == pytest.approx(float(slot_mb), rel=0.03), dtype
        assert found[0].total_bytes / MB == pytest.approx(float(sum_mb), rel=0.03), dtype
        assert [max(0, budget.largest_capacity) for budget in found] == \
            [int(number) for number in largest], dtype


def test_five_drafts_in_16_bit_do_not_fit_and_the_message_says_how_many_would(tmp_path, capsys):
    settings = jetson_settings(tmp_path, CONFIG / 'orin_nano.yaml', dtype='bf16')
    code, out = run_check(tmp_path, capsys, settings.replace({'runtime.cache_capacity': 5}),
                          '--memory', '8GB')
    assert code == 1
    assert 'device: cuda, on another machine' in out
    assert 'K=5 does not fit into memory:' in out
    assert 'available (stated)' in out
    assert 'the largest K that fits is 1 (runtime.cache_capacity)' in out
    total = float(re.search(r'  sum +([\d.]+) MB', out)[1])
    said = re.search(r'K=5 in 16 bit would take (\d+) MB',
                     (CONFIG / 'orin_nano.yaml').read_text(encoding='utf-8'))
    assert total == pytest.approx(float(said[1]), rel=0.03)


def test_drafts_that_are_not_there_yet_count_as_their_entries_say(tmp_path, capsys):
    settings = jetson_settings(tmp_path, CONFIG / 'orin_nano.yaml', stored='int4')
    for name in ('general', 'code', 'math', 'law', 'medical'):
        (tmp_path / f'{name}.safetensors').unlink()
    code, out = run_check(tmp_path, capsys, settings, '--memory', '8GB', '--json')
    report = json.loads(out)
    assert (code, report['verdict']) == (1, 'files missing')
    assert report['items']['2 x draft slot'] / MB == pytest.approx(2 * 311, rel=0.03)
    assert report['items']['shared by drafts'] < 10 * MB  # none of them borrows the target's table


@pytest.mark.parametrize(('text', 'num_bytes'), [
    ('8GB', 8_000_000_000), ('7.4 GB', 7_400_000_000), ('6.5GiB', 6_979_321_856),
    ('7000MB', 7_000_000_000), ('512', 512)])
def test_sizes(text, num_bytes):
    assert check.parse_bytes(text) == num_bytes


@pytest.mark.parametrize('text', ['much', '-3GB', '8 XB', 'GB', '1e9'])
def test_what_is_no_size(text):
    with pytest.raises(ConfigError, match='it must be a size such as'):
        check.parse_bytes(text)
