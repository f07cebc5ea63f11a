# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The files of examples/ against the interfaces that they name; read as text, no ROS."""

import ast
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / 'examples'
FIELD = re.compile(r'^[\w/]+(?:\[\])? ([a-z][a-z0-9_]*)(?: \S+)?$', re.MULTILINE)


def fields(name, section=0):
    return set(FIELD.findall((ROOT / name).read_text(encoding='utf-8').split('\n---\n')[section]))


def test_plotjuggler_plots_every_number_and_nothing_else():
    layout = ElementTree.parse(EXAMPLES / 'monitoring' / 'plotjuggler.xml')
    curves = [curve.get('name') for curve in layout.iter('curve')]
    assert len(set(curves)) == len(curves)
    assert {curve.removeprefix('/memspec/throughput/') for curve in curves} == \
        fields('msg/Throughput.msg') - {'header'}
    for splitter in layout.iter('DockSplitter'):
        assert int(splitter.get('count')) == len(splitter) == len(splitter.get('sizes').split(';'))


def test_foxglove_shows_every_number_and_each_panel_once():
    layout = json.loads((EXAMPLES / 'monitoring' / 'foxglove.json').read_text(encoding='utf-8'))
    paths = [path['value'] for panel in layout['configById'].values()
             for path in panel.get('paths', ())]
    plotted = {path.removeprefix('/memspec/throughput.') for path in paths
               if path.startswith('/memspec/throughput.')}
    assert plotted == fields('msg/Throughput.msg') - {'header'}
    others = {path.removeprefix('/memspec/draft_residency.') for path in paths
              if path.startswith('/memspec/draft_residency.')}
    assert others <= fields('msg/DraftResidency.msg')
    assert len(plotted) + len(others) == len(paths)
    assert sorted(panels(layout['layout'])) == sorted(layout['configById'])


def panels(tree):
    if isinstance(tree, str):
        yield tree
    else:
        yield from panels(tree['first'])
        yield from panels(tree['second'])


def test_the_ports_of_the_behaviour_tree_are_the_fields_of_the_action():
    tree = ElementTree.parse(EXAMPLES / 'behaviour_tree' / 'generate_action.xml')
    model, = (action for action in tree.iter('Action') if action.get('ID') == 'Generate')
    inputs = {port.get('name') for port in model.iter('input_port')} - {'action_name'}
    outputs = {port.get('name') for port in model.iter('output_port')}
    assert {name.removesuffix('_s') for name in inputs} <= fields('action/Generate.action')
    assert outputs <= fields('action/Generate.action', 1)
    used, = tree.iter('Generate')
    assert set(used.attrib) - {'name', 'action_name'} <= inputs | outputs


@pytest.mark.parametrize('path', sorted(EXAMPLES.rglob('*.py')), ids=lambda path: path.name)
def test_a_program_can_be_run(path):
    assert path.stat().st_mode & 0o111
    assert ast.get_docstring(ast.parse(path.read_text(encoding='utf-8')))


def test_the_build_installs_the_examples():
    assert re.search(r'install\(DIRECTORY launch config examples ',
                     (ROOT / 'CMakeLists.txt').read_text(encoding='utf-8'))
    assert 'graft examples' in (ROOT / 'MANIFEST.in').read_text(encoding='utf-8')
