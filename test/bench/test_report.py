# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From result files to one HTML file and images."""

from __future__ import annotations

import json
import sys

import pytest

from memspec_ros.bench import paper
from memspec_ros.bench.chart import Chart, draw
from memspec_ros.bench.figures import measured_figures, over_general, replayed_figures
from memspec_ros.bench.report import Results
from memspec_ros.bench.report_tables import our_claims
from memspec_ros.bench.strategies import STRATEGIES
from memspec_ros.cli import main
from memspec_ros.errors import DataError, DependencyError

PNG = b'\x89PNG\r\n'
WORKLOADS = ('general', 'code', 'math', 'law', 'medical')
RATES = {'plain': 80.0, 'ngram': 88.0, 'general_static': 100.0, 'oracle_static': 118.0,
         'mab_sync': 70.0, 'mab_async': 105.0, 'bandit_spec': 65.0, 'prediction_only': 112.0,
         'memspec': 130.0, 'memspec_online': 133.0, 'memspec_online_adaptive': 140.0,
         'oracle_dynamic': 136.0}


def regime():
    """An evaluation as it might come out."""
    rows = {name: {workload: rate * (0.9 + 0.05 * at)
                   for at, workload in enumerate(WORKLOADS)} for name, rate in RATES.items()}
    shares = {name: {'desired': 1.0, 'fallback': 0.0, 'prediction': 0.0, 'load_wait': 0.0}
              for name in RATES}
    shares['mab_async'] = {'desired': 0.55, 'fallback': 0.45, 'prediction': 0.0, 'load_wait': 0.0}
    shares['mab_sync'] = {'desired': 0.6, 'fallback': 0.0, 'prediction': 0.0, 'load_wait': 0.4}
    shares['memspec'] = {'desired': 0.94, 'fallback': 0.05, 'prediction': 0.01, 'load_wait': 0.0}
    return {
        'command': 'memspec bench --runs 1', 'tokens_per_s': rows, 'gmean': RATES,
        'shares': shares, 'committed_per_iteration': {
            name: {workload: rate / 60 for workload, rate in row.items()}
            for name, row in rows.items()},
        'config': {'complete': True, 'platform': 'Linux', 'memory_gb': 24.75, 'draft_length': 3,
                   'versions': {'torch': '2', 'rclpy': 'absent'},
                   'machine': {'device': 'cpu', 'cpu': 'Some <CPU>', 'num_cpus': 2}},
        'details': {
            'over_general_static': {name: rate / 100 for name, rate in RATES.items()},
            'over_plain': {name: rate / 80 for name, rate in RATES.items()},
            'num_different': dict.fromkeys(RATES, 0), 'num_goals': dict.fromkeys(RATES, 5),
            'latencies_s': {'iteration': 0.02, 'resident_switch': 0.004, 'absent_switch': 0.058},
            'end_to_end_s': {name: {workload: 120 / rate for workload, rate in row.items()}
                             for name, row in rows.items()}}}


def replay():
    sweeps = {'scheduling_interval': {'memspec': {'2': 1.2, '4': 1.3, '16': 1.1},
                                      'general_static': {'2': 1.0, '4': 1.0, '16': 1.0}},
              'output_length': {'memspec': {'64': 1.2, '128': 1.3}, 'mab_async': {'64': 1.0,
                                                                                  '128': 1.1}},
              'cache_capacity': {'memspec': {'2': 1.3, '3': 1.32, '4': 1.33},
                                 'mab_async': {'2': 1.05, '3': 1.1, '4': 1.2}}}
    device = {'gmean': RATES, 'over_general_static': {n: r / 100 for n, r in RATES.items()}}
    return {'config': {'trace': 'trace.safetensors'}, 'command': 'memspec bench --replay',
            'devices': {'orin_nano': device}, 'sweeps': {'orin_nano': sweeps}}


def peers():
    rates = {'ours_plain': {'code': 120.0, 'law': 118.0},
             'ours_memspec_online': {'code': 190.0, 'law': 160.0},
             'llama_cpp_plain': {'code': 105.0, 'law': 104.0}}
    return {'config': {'runs': 5}, 'command': 'memspec bench --peers', 'tokens_per_s': rates,
            'ratios': {'plain_over_llama_cpp': 1.14}, 'absent': ['transformers_assisted'],
            'details': {'gmean': {'ours_plain': 119.0, 'ours_memspec_online': 174.4,
                                  'llama_cpp_plain': 104.5},
                        'spread': {row: {domain: [rate - 2, rate + 2]
                                         for domain, rate in row_rates.items()}
                                   for row, row_rates in rates.items()},
                        'why_absent': {'transformers_assisted': 'no <model>'}}}


def matrix():
    domains = ('general', 'code', 'law')
    rows = {name: {domain: 1.6 + 0.4 * (name == domain) for domain in domains}
            for name in domains}
    return {'gamma': 3, 'committed_per_iteration': rows, 'command': 'memspec trace',
            'tokens_per_s': {'plain': dict.fromkeys(domains, 80.0), **{
                name: {domain: 60 * value for domain, value in row.items()}
                for name, row in rows.items()}}}


@pytest.fixture
def results(tmp_path):
    files = {'regime_e': regime(), 'replay': replay(), 'peers': peers(), 'draft_matrix': matrix(),
             'replay_vs_real': {'memspec': 1.02},
             'predictor': {'target_state': {'both': {'top1': 0.8, 'top2': 0.97}}}}
    for name, document in files.items():
        (tmp_path / f'{name}.json').write_text(json.dumps(document), encoding='utf-8')
    return tmp_path


def test_all_figures_and_tables_are_in_one_file(results, capsys):
    assert main.main(['report', str(results)]) == 0
    page = (results / 'report' / 'report.html').read_text(encoding='utf-8')
    for number in (1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12):
        assert f'alt="figure {number}: ' in page
    for text in ('Table 1', 'Table 2', 'memspec bench --runs 1', '0.716', '0.800', '1.588',
                 'Some &lt;CPU&gt;', '24.8 GB', 'no &lt;model&gt;', 'memspec bench --peers'):
        assert text in page
    assert 'src="http' not in page
    images = sorted((results / 'report').glob('*.png'))
    assert len(images) == page.count('data:image/png;base64,') == 14
    assert all(image.read_bytes().startswith(PNG) for image in images)
    assert '14 figures' in capsys.readouterr().out


def test_what_is_missing_is_left_out(tmp_path):
    (tmp_path / 'peers.json').write_text(json.dumps(peers()), encoding='utf-8')
    assert [chart.name for chart in Results.read(tmp_path).charts()] == ['peers']
    assert measured_figures({}) == []
    few = regime()
    for table in ('tokens_per_s', 'gmean', 'shares', 'committed_per_iteration'):
        few[table] = {'plain': few[table]['plain']}
    assert [chart.name for chart in measured_figures(few)] == ['figure 2']


def test_a_folder_without_results_is_an_error(tmp_path):
    with pytest.raises(DataError, match='has none of the result files'):
        Results.read(tmp_path)
    (tmp_path / 'regime_e.json').write_text('{"tokens', encoding='utf-8')
    with pytest.raises(DataError, match='cannot be read'):
        Results.read(tmp_path)


def test_ratios_are_geometric_means_over_workloads():
    table = {'general_static': {'a': 10.0, 'b': 10.0}, 'memspec': {'a': 40.0, 'b': 10.0}}
    ours = over_general(table, ('general_static', 'memspec', 'mab_sync'))
    assert ours['MemSpec'] == pytest.approx({'a': 4.0, 'b': 1.0, 'GMEAN': 2.0})
    assert set(ours) == {'General-Static', 'MemSpec'}


def test_claims_are_computed_as_the_paper_computes_them():
    ours = our_claims(regime())
    assert ours['memspec_over_general_static'] == pytest.approx(1.3)
    assert ours['memspec_share_of_oracle_dynamic'] == pytest.approx(130 / 136)
    assert ours['memspec_fallback_share'] == 0.05
    assert ours['end_to_end_change_against_general_static'] == pytest.approx(100 / 130 - 1)
    assert set(ours) == set(paper.values('claims'))
    assert our_claims({}) == {}


def test_bars_of_time_are_normalised_to_the_first_strategy():
    chart = next(one for one in measured_figures(regime()) if one.name == 'figure 7')
    heights = {name: sum(row.get(name, 0.0) for row in chart.ours.values())
               for name in ('MAB-Async', 'MemSpec')}
    assert heights == pytest.approx({'MAB-Async': 1.0, 'MemSpec': 105 / 130})
    assert chart.totals['MemSpec'] == pytest.approx(1.129 / 1.588)
    assert chart.paper['fallback']['MAB-Async'] == pytest.approx(0.494)


def test_every_number_of_the_paper_has_its_source():
    for section in ('claims', 'shares', 'predictor', 'throughput_over_general'):
        assert paper.sources(section)
    assert paper.values('cache_capacity')['memspec']['4'] == 1.51
    assert set(paper.values('throughput_over_general')) <= set(STRATEGIES)


def test_capacity_stands_beside_the_papers():
    chart = next(one for one in replayed_figures(replay()) if one.name == 'figure 12')
    assert chart.paper['MAB-Async'] == {'2': 1.13, '4': 1.29}
    assert 'General-Static' not in chart.ours


def test_without_matplotlib_the_remedy_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, 'matplotlib.figure', None)
    with pytest.raises(DependencyError, match='pip install matplotlib'):
        draw(Chart(name='x', title='y', kind='bars', unit='', ours={'a': {'b': 1.0}}))
