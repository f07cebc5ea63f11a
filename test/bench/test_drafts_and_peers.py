# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec bench --drafts`` and ``--peers``, end to end on tiny models."""

from __future__ import annotations

import json
import sys

import pytest

from memspec_ros.bench.peer_figures import BASE, BEST, rates_of, ratios_of
from memspec_ros.bench.peer_process import PeerOrder, PeerProcess
from memspec_ros.bench.record import GoalRecord
from memspec_ros.errors import DependencyError, MemSpecError

PEER = """
import json, sys
order = json.loads(sys.stdin.readline())
if order['look_up_tokens']:
    print(json.dumps({'error': 'no such draft'}), flush=True)
    sys.exit()
print(json.dumps({'about': {'name': 'echo'}}), flush=True)
for line in sys.stdin:
    goal = json.loads(line)
    if not goal['prompt']:
        sys.exit('it fell over')
    tokens = goal['prompt'][:goal['max_tokens']]
    print(json.dumps({'tokens': tokens, 'prefill_s': 0.1, 'first_token_s': 0.2, 'decode_s': 0.5,
                      'cpu_s': 0.1, 'peak_rss_bytes': 1000}), flush=True)
"""


def read(path):
    return json.loads(path.read_text(encoding='utf-8'))


def test_each_domain_with_its_specialist(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['memspec', 'bench', '--drafts'])
    (tmp_path / 'result.json').write_text(json.dumps(
        {'gamma': 3, 'bytes': {'code': 7}, 'command': 'memspec trace'}))
    assert bench('--drafts')[0] == 0
    result = read(tmp_path / 'result.json')
    rates = result['tokens_per_s']
    everywhere = {'general', 'code', 'law'}
    assert {draft: set(row) for draft, row in rates.items()} == {
        'plain': everywhere, 'ngram': everywhere, 'general': everywhere, 'code': {'code'},
        'law': {'law'}}
    assert (result['gamma'], result['bytes']) == (3, {'code': 7})
    assert result['command'].startswith('memspec trace && memspec bench')
    assert result['tokens_per_s_config']['complete']
    assert set(result['tokens_per_s_config']['outputs_differing_from_plain'].values()) == {0}
    _, out, _ = bench('--drafts', '--all-pairs')
    assert set(read(tmp_path / 'result.json')['tokens_per_s']['law']) == everywhere
    assert 'specialists over the general draft' in out


@pytest.fixture
def peer_script(tmp_path, monkeypatch):
    path = tmp_path / 'peer.py'
    path.write_text(PEER, encoding='utf-8')
    monkeypatch.setattr('memspec_ros.bench.peer_process.CHILD', path)
    return path


@pytest.mark.usefixtures('peer_script')
def test_ours_beside_peers_and_the_absent_are_listed(bench, tmp_path):
    code, out, _ = bench('--peers', '--domains', 'code', '--runs', '1')
    assert code == 0
    result = read(tmp_path / 'result.json')
    assert set(result) >= {'config', 'command', 'tokens_per_s', 'ratios', 'absent'}
    assert set(result['tokens_per_s']) == {
        'ours_plain', 'ours_ngram', 'ours_general', 'ours_memspec', 'ours_memspec_online',
        'llama_cpp_plain', 'transformers_generate'}
    assert result['absent'] == ['llama_cpp_prompt_lookup', 'transformers_assisted',
                                'transformers_prompt_lookup']
    assert 'no such draft' in result['details']['why_absent']['llama_cpp_prompt_lookup']
    assert result['config']['complete']
    assert set(result['ratios']) >= {'plain_over_llama_cpp', 'best_over_llama_cpp',
                                     'best_over_best_peer'}
    assert result['tokens_per_s']['llama_cpp_plain']['code'] == pytest.approx(20.0)
    assert result['config']['peers']['llama_cpp_plain'] == {'name': 'echo'}
    differing = result['details']['outputs_differing_from_ours_plain']
    assert differing['ours_memspec'] == [0, 1]
    assert differing['llama_cpp_plain'] == [1, 1]
    assert 'absent: llama_cpp cannot be opened: no such draft' in out


ORDER = PeerOrder(kind='llama_cpp', model='none.gguf', context_tokens=64, num_threads=1,
                  end_ids=(0,))


@pytest.mark.usefixtures('peer_script')
def test_a_peer_that_falls_over_says_so():
    peer = PeerProcess(ORDER)
    assert peer.generate([5, 6, 7], 2).tokens == (5, 6)
    with pytest.raises(MemSpecError, match='its process ended: it fell over'):
        peer.generate([], 2)
    peer.close()


def test_a_peer_that_is_not_here_is_told():
    with pytest.raises(DependencyError, match='none/python cannot be run'):
        PeerProcess(ORDER, python='none/python')
    with pytest.raises(DependencyError, match=r'llama_cpp cannot be opened: \w+Error'):
        PeerProcess(ORDER, python=sys.executable)


def record(row, run, num_tokens, seconds, domain='code'):
    return GoalRecord(
        strategy=row, workload=domain, prompt='p', run=run, num_tokens=num_tokens,
        num_iterations=1, num_drafted=0, num_accepted=0, desired_s=seconds, fallback_s=0.0,
        prediction_s=0.0, load_wait_s=0.0, startup_s=0.0, wall_decode_s=seconds)


def test_a_rate_is_of_all_tokens_of_a_run():
    rates = rates_of([record('a', 0, 10, 1.0), record('a', 0, 30, 1.0), record('a', 1, 10, 2.0)])
    assert rates == {'a': {'code': [20.0, 5.0]}}


def test_ratios_are_geometric_means_over_domains():
    rates = {'ours_plain': {'code': 10.0, 'law': 10.0}, BEST: {'code': 40.0, 'law': 10.0},
             BASE: {'code': 10.0, 'law': 10.0}, 'other': {'code': 20.0, 'law': 20.0}}
    ratios = ratios_of(rates)
    assert ratios['best_over_llama_cpp'] == pytest.approx(2.0)
    assert ratios['best_over_best_peer'] == pytest.approx(1.0)
    assert ratios['plain_over_llama_cpp'] == pytest.approx(1.0)
    assert ratios_of({BASE: {'code': 1.0}}) == {}
