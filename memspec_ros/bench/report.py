# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec report``: the paper's figures and tables, ours beside the paper's, in one file."""

from __future__ import annotations

import argparse
import base64
import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memspec_ros.atomic_file import written_beside
from memspec_ros.bench import report_tables as tables
from memspec_ros.bench.chart import Chart, draw
from memspec_ros.bench.figures import (
    Document,
    measured_figures,
    other_figures,
    replayed_figures,
)
from memspec_ros.bench.result_file import read_json
from memspec_ros.errors import DataError

TITLE = "memspec_ros: the paper's evaluation, ours beside the paper's"
STYLE = ('body{font-family:sans-serif;max-width:75em;margin:2em auto;padding:0 1em;line-height:'
         '1.4}table{border-collapse:collapse;margin:.6em 0;font-size:85%}td,th{border:1px solid '
         '#ccc;padding:.2em .6em;text-align:right}td:first-child,th:first-child{text-align:left}'
         'img{max-width:100%;display:block;margin-top:1.2em}p{font-size:85%;color:#444;margin:'
         '.2em 0}pre{overflow:auto;background:#f6f6f6;padding:.8em;font-size:80%}')


@dataclass(frozen=True, kw_only=True)
class Results:
    """The result files of a folder; {} for those that are not there."""

    regime: Document = field(default_factory=dict)
    replay: Document = field(default_factory=dict)
    agreement: Document = field(default_factory=dict)
    predictor: Document = field(default_factory=dict)
    matrix: Document = field(default_factory=dict)
    peers: Document = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Read what is there.

        :raises DataError: nothing is there, or a file is damaged.
        """
        names = {'regime': 'regime_e', 'replay': 'replay', 'agreement': 'replay_vs_real',
                 'predictor': 'predictor', 'matrix': 'draft_matrix', 'peers': 'peers'}
        found = {key: read_json(folder / f'{name}.json') for key, name in names.items()}
        if not any(found.values()):
            raise DataError(f'{folder} has none of the result files '
                            f'{", ".join(f"{name}.json" for name in names.values())}: '
                            'memspec bench makes them')
        return cls(**found)

    def charts(self) -> list[Chart]:
        """Return every figure that can be drawn, in the paper's order."""
        return [*measured_figures(self.regime), *replayed_figures(self.replay),
                *other_figures(self.matrix, self.peers)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``memspec report``."""
    parser.add_argument('folder', nargs='?', type=Path, default=Path('results'),
                        metavar='FOLDER', help='of the result files (default: %(default)s)')
    parser.add_argument('--output', type=Path, metavar='FOLDER',
                        help='where report.html and the PNGs go (default: FOLDER/report)')


def run(args: argparse.Namespace) -> int:
    """Write the report of what is there.

    :raises DependencyError: matplotlib is not installed.
    """
    results = Results.read(args.folder)
    output = args.output or args.folder / 'report'
    charts = results.charts()
    write_report(results, charts, output)
    print(f'{output / "report.html"}: {len(charts)} figures')
    return 0


def write_report(results: Results, charts: Sequence[Chart], output: Path) -> None:
    """Write report.html, which holds its images, and a PNG per figure beside it."""
    output.mkdir(parents=True, exist_ok=True)
    parts = [f'<h1>{html.escape(TITLE)}</h1>', *_tables(results), '<h2>Figures</h2>']
    for number, chart in enumerate(charts, start=1):
        image = draw(chart)
        with written_beside(output / f'{number:02d}-{chart.name.replace(" ", "-")}.png') as file:
            file.write(image)
        parts.append(_figure(chart, image))
    parts += _configurations(results)
    page = ('<!doctype html><html lang="en"><meta charset="utf-8">'
            f'<title>{html.escape(TITLE)}</title><style>{STYLE}</style>{"".join(parts)}</html>\n')
    with written_beside(output / 'report.html') as file:
        file.write(page.encode())


def _figure(chart: Chart, image: bytes) -> str:
    encoded = base64.b64encode(image).decode()
    notes = [chart.note, f'Paper: {chart.source}.' if chart.source and (
        chart.paper or chart.totals) else '']
    return (f'<img alt="{html.escape(f"{chart.name}: {chart.title}")}" '
            f'src="data:image/png;base64,{encoded}">'
            + ''.join(f'<p>{html.escape(note)}</p>' for note in notes if note))


def _tables(results: Results) -> Iterator[str]:
    if results.regime:
        if not results.regime['config'].get('complete', True):
            yield '<p><b>The evaluation is not complete: it was broken off.</b></p>'
        yield "<h2>The paper's claims</h2>" + tables.claims(results.regime)
        yield '<h2>Throughput</h2>' + tables.throughput(results.regime)
        yield '<h2>Table 1: hardware</h2>' + tables.hardware(results.regime['config'])
    if results.predictor:
        yield '<h2>Table 2: predictor quality</h2>' + tables.predictors(results.predictor)
    if results.agreement:
        yield '<h2>Replay against real time</h2>' + tables.agreement(results.agreement)
    if results.replay:
        yield '<h2>Replay on devices</h2>' + tables.devices(results.replay)
    if results.peers:
        yield '<h2>Peers</h2>' + ''.join(tables.peers(results.peers))


def _configurations(results: Results) -> Iterator[str]:
    yield '<h2>How it was made</h2>'
    for name, document in vars(results).items():
        config = document.get('config') or document.get('tokens_per_s_config')
        if config:
            text = f'{document.get("command", "")}\n{json.dumps(config, indent=1)}'
            yield f'<h3>{html.escape(name)}</h3><pre>{html.escape(text)}</pre>'
