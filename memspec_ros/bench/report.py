# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec report``: the paper's figures and tables, ours beside the paper's, in one file."""

from __future__ import annotations

import argparse
import base64
import html
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memspec_ros.atomic_file import written_beside
from memspec_ros.bench import paper
from memspec_ros.bench.chart import Chart, draw
from memspec_ros.bench.figures import label, measured_figures
from memspec_ros.bench.record import RecordFile
from memspec_ros.bench.replayed import ReplayBench
from memspec_ros.bench.sensitivity import sensitivity_figures
from memspec_ros.bench.summary import Summary, ratios, summarise
from memspec_ros.config import Settings
from memspec_ros.errors import DataError
from memspec_ros.prediction.predictor import UniformPredictor
from memspec_ros.prediction.predictor_file import PredictorFile
from memspec_ros.prediction.target_state import TargetStateRanker
from memspec_ros.replay.acceptance_table import AcceptanceTable, read_acceptance_table
from memspec_ros.replay.goal_table import GoalTable
from memspec_ros.replay.predicted import predicted_tables
from memspec_ros.replay.profile import DeviceProfile
from memspec_ros.runtime.plan import NGRAM_DRAFT, PoolDraft

STYLE = ('body{font-family:sans-serif;max-width:70em;margin:2em auto}table{border-collapse:'
         'collapse}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:right}'
         'td:first-child,th:first-child{text-align:left}img{max-width:100%}pre{overflow:auto}')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``memspec report``."""
    parser.add_argument('measurement', type=Path, metavar='FOLDER',
                        help='what memspec bench wrote (its --output)')
    parser.add_argument('--output', type=Path, metavar='FOLDER',
                        help='where report.html and the PNGs go (default: the same)')
    parser.add_argument('--predictor', type=Path, metavar='FILE',
                        help='a target_state predictor, for the figures made in replay')
    parser.add_argument('--predictor-report', type=Path, metavar='FILE',
                        help='what memspec train-predictor --report wrote, for table 2')


def run(args: argparse.Namespace) -> int:
    """Draw everything that the measurement has."""
    folder, output = args.measurement, args.output or args.measurement
    about = _read_json(folder / 'summary.json')
    records = RecordFile(folder / 'records.jsonl').records
    summary = summarise(records)
    profile = DeviceProfile.load(folder / 'profile.json')
    draft_length = int(about['config']['draft_length'])
    charts = measured_figures(summary, profile, draft_length, records)
    trace = folder / 'trace.safetensors'
    if trace.is_file():
        settings = Settings.from_parameters(about['config']['parameters'])
        charts += sensitivity_figures(_replay_bench(
            read_acceptance_table(trace), settings, profile, args.predictor))
    quality = _read_json(args.predictor_report) if args.predictor_report else {}
    write_report(output, charts, summary, about, quality)
    print(f'{output / "report.html"}: {len(charts)} figures')
    return 0


def write_report(output: Path, charts: Sequence[Chart], summary: Summary,
                 about: Mapping[str, Any], quality: Mapping[str, Any]) -> None:
    """Write report.html and a PNG per figure."""
    output.mkdir(parents=True, exist_ok=True)
    parts = ["<h1>memspec_ros: the evaluation of MemSpec, ours beside the paper's</h1>",
             *_tables(summary, quality)]
    for number, chart in enumerate(charts, start=1):
        image = draw(chart)
        name = f'{number:02d}-{chart.name.replace(" ", "-")}.png'
        with written_beside(output / name) as file:
            file.write(image)
        encoded = base64.b64encode(image).decode()
        parts.append(f'<h2>{html.escape(chart.name)}: {html.escape(chart.title)}</h2>'
                     f'<img alt="{html.escape(chart.title)}" '
                     f'src="data:image/png;base64,{encoded}"><p>{html.escape(chart.note)}</p>')
    parts.append('<h2>How it was made</h2><pre>'
                 f'{html.escape(str(about.get("command", "")))}\n'
                 f'{html.escape(json.dumps(about.get("config", {}), indent=2))}</pre>')
    page = (f'<!doctype html><meta charset="utf-8"><title>memspec_ros</title><style>{STYLE}'
            f'</style>{"".join(parts)}')
    with written_beside(output / 'report.html') as file:
        file.write(page.encode())


def _tables(summary: Summary, quality: Mapping[str, Any]) -> Iterator[str]:
    over_general, over_plain = ratios(summary, 'general_static'), ratios(summary, 'plain')
    yield '<h2>Throughput</h2>' + _table(
        ('strategy', *_workloads(summary), 'GMEAN tokens/s', 'over General-Static',
         "paper's", 'over plain', 'desired', 'fallback', 'prediction', 'load wait',
         'other output'),
        [(label(name), *(f'{rate:.1f}' for rate in row.values()), f'{summary.gmean[name]:.1f}',
          f'{over_general.get(name, 0):.3f}', _stated(name), f'{over_plain.get(name, 0):.3f}',
          *(f'{share:.3f}' for share in summary.shares[name].values()),
          f'{summary.num_different[name]} of {summary.num_goals[name]}')
         for name, row in summary.tokens_per_s.items()])
    yield '<h2>Table 1: hardware</h2>' + _table(
        ('', 'ours', "paper's"), [('Platform', platform.platform(), paper.HARDWARE['Platform']),
                                  ('CPU', _processor(), paper.HARDWARE['CPU']),
                                  ('Memory', '', paper.HARDWARE['Memory'])])
    yield '<h2>Table 2: predictor quality</h2>' + _table(
        ('predictor', 'input', 'top-1', 'top-2', "paper's top-1", "paper's top-2"),
        [(kind, inputs, f'{row["top1"]:.3f}', f'{row["top2"]:.3f}',
          *(f'{value:.3f}' for value in paper.PREDICTOR[inputs].values()))
         for kind, rows in quality.items() for inputs, row in rows.items()])


def _stated(strategy: str) -> str:
    value = paper.THROUGHPUT_OVER_GENERAL.get(strategy)
    return f'{value:.3f}' if value else ''


def _workloads(summary: Summary) -> tuple[str, ...]:
    return tuple(next(iter(summary.tokens_per_s.values()), {}))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [''.join(f'<th>{html.escape(cell)}</th>' for cell in header)]
    lines += [''.join(f'<td>{html.escape(cell)}</td>' for cell in row) for row in rows]
    return '<table>' + ''.join(f'<tr>{line}</tr>' for line in lines) + '</table>'


def _processor() -> str:
    try:
        lines = Path('/proc/cpuinfo').read_text(encoding='utf-8').split('\n')
    except OSError:
        return platform.processor()
    names = [line.partition(':')[2].strip() for line in lines if line.startswith('model name')]
    return f'{len(names)} x {names[0]}' if names else platform.processor()


def _replay_bench(table: AcceptanceTable, settings: Settings, profile: DeviceProfile,
                  predictor: Path | None) -> ReplayBench:
    drafts = [PoolDraft(name=name, domain=draft.domain, num_bytes=draft.num_bytes)
              for name, draft in table.drafts.items() if name != NGRAM_DRAFT]
    uniform = UniformPredictor([draft.name for draft in drafts])
    tables: list[GoalTable] = table.goal_tables()
    if predictor is not None:
        opened = PredictorFile.load(predictor)
        ranker = TargetStateRanker(opened.head, inputs=opened.inputs)
        tables = list(predicted_tables(table, ranker, settings.runtime.recent_tokens))
    return ReplayBench(tables=tables, drafts=drafts, profile=profile, predictor=uniform,
                       settings=settings.runtime)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding='utf-8'))
        return value
    except (OSError, ValueError) as error:
        raise DataError(f'{path} cannot be read: {error}; memspec bench writes it') from error
