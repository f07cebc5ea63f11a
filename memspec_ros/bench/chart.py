# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A chart as data, and its drawing: ours, with the paper's numbers where it states any."""

from __future__ import annotations

import importlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memspec_ros.errors import DependencyError

Table = dict[str, dict[str, float]]
"""{series: {category: value}}"""

HEIGHT_INCHES, DPI = 3.8, 120
MIN_WIDTH_INCHES, MAX_WIDTH_INCHES, INCHES_PER_BAR = 6.0, 12.5, 0.24
COLOURS = {
    'Plain decoding': '#9e9e9e', 'N-gram alone': '#c7b299', 'General-Static': '#4e79a7',
    'Oracle-Static': '#76b7b2', 'MAB-Sync': '#edc948', 'MAB-Async': '#f28e2b',
    'BanditSpec': '#b07aa1', 'Prediction-Only': '#ff9da7', 'MemSpec': '#e15759',
    'MemSpec, online': '#9c2a3c', 'MemSpec, online, adaptive length': '#5b1622',
    'Oracle-Dynamic': '#59a14f',
    'desired': '#4e79a7', 'fallback': '#f28e2b', 'prediction': '#59a14f', 'load wait': '#e15759'}
OTHER_COLOURS = ('#4e79a7', '#f28e2b', '#59a14f', '#e15759', '#b07aa1', '#76b7b2', '#edc948',
                 '#9c755f', '#bab0ac', '#ff9da7')
NOT_STATED = 'not stated'


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One figure.

    :param kind: 'bars' (series side by side), 'stacked' (series are the parts of each category's
        bar), or 'lines' (categories along the axis).
    :param ours: what was measured here; ``paper`` what the paper states, where it does.
    :param totals: heights of the paper's stacked bars; what it does not state fills them up.
    :param source: where the paper states it.
    """

    name: str
    title: str
    kind: str
    unit: str
    ours: Table
    axis: str = ''
    paper: Table = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    source: str = ''
    note: str = ''


def draw(chart: Chart) -> bytes:
    """Return a chart as PNG.

    :raises DependencyError: matplotlib is not installed.
    """
    figure = _figure(min(MAX_WIDTH_INCHES, max(
        MIN_WIDTH_INCHES, 2.2 + INCHES_PER_BAR * _num_bars(chart))))
    axis = figure.subplots()
    {'bars': _bars, 'stacked': _stacked, 'lines': _lines}[chart.kind](axis, chart)
    axis.set_title(f'{chart.name}: {chart.title}', fontsize=10, loc='left')
    axis.set_ylabel(chart.unit, fontsize=9)
    axis.set_xlabel(chart.axis, fontsize=9)
    axis.tick_params(labelsize=8.5)
    axis.spines[['top', 'right']].set_visible(False)
    axis.grid(axis='y', color='#dddddd', linewidth=0.6)
    axis.set_axisbelow(True)
    axis.legend(fontsize=8, loc='upper left', bbox_to_anchor=(1.0, 1.0), frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format='png', metadata={'Software': None})
    return buffer.getvalue()


def _figure(width_inches: float) -> Any:
    try:
        canvas = importlib.import_module('matplotlib.backends.backend_agg').FigureCanvasAgg
        make_figure = importlib.import_module('matplotlib.figure').Figure
    except ModuleNotFoundError as error:
        raise DependencyError('the report draws with matplotlib, which is not installed: '
                              'python3 -m pip install matplotlib') from error
    figure = make_figure(figsize=(width_inches, HEIGHT_INCHES), dpi=DPI, layout='constrained')
    canvas(figure)
    return figure


def _categories(*tables: Table) -> list[str]:
    return list(dict.fromkeys(name for table in tables for row in table.values() for name in row))


def _num_bars(chart: Chart) -> int:
    if chart.kind == 'bars':
        return len(chart.ours) * len(_categories(chart.ours)) + 4
    return 5 * (len(_categories(chart.ours)) + len(chart.totals))


def _colour(series: str, number: int) -> str:
    return COLOURS.get(series, OTHER_COLOURS[number % len(OTHER_COLOURS)])


def _bars(axis: Any, chart: Chart) -> None:
    categories, width = _categories(chart.ours, chart.paper), 0.84 / max(1, len(chart.ours))
    stated: list[tuple[float, float]] = []
    for number, (series, row) in enumerate(chart.ours.items()):
        offset = (number - (len(chart.ours) - 1) / 2) * width
        places = {name: at + offset for at, name in enumerate(categories)}
        bars = axis.bar([places[name] for name in row], list(row.values()), 0.92 * width,
                        label=series, color=_colour(series, number))
        if len(categories) <= 3 or len(chart.ours) <= 2:
            axis.bar_label(bars, fmt='%.3g', fontsize=7.5, padding=2)
        elif categories[-1] in row:
            axis.text(places[categories[-1]], 0.02 * row[categories[-1]],
                      f' {row[categories[-1]]:.3g}', rotation=90, fontsize=7.5, color='white',
                      ha='center', va='bottom')
        stated += [(places[name], value) for name, value in chart.paper.get(series, {}).items()]
    _diamonds(axis, stated)
    axis.set_xticks(range(len(categories)), categories)


def _diamonds(axis: Any, stated: Sequence[tuple[float, float]]) -> None:
    if stated:
        axis.scatter([at for at, _ in stated], [value for _, value in stated], marker='D', s=26,
                     facecolor='white', edgecolor='black', zorder=5, label='paper')


def _stacked(axis: Any, chart: Chart) -> None:
    """Draw each category's bar and, where the paper states parts of it, the paper's beside it."""
    categories = _categories(chart.ours)
    compared = [name for name in categories if name in chart.totals]
    columns = [(name, False) for name in categories]
    for name in compared:
        columns.insert(columns.index((name, False)) + 1, (name, True))
    bottom = dict.fromkeys(columns, 0.0)
    for number, part in enumerate(chart.ours):
        heights = [(chart.paper if paper else chart.ours).get(part, {}).get(name, 0.0)
                   for name, paper in columns]
        bars = axis.bar(range(len(columns)), heights, 0.62, bottom=list(bottom.values()),
                        color=_colour(part, number), label=part)
        for bar, (_, paper) in zip(bars, columns, strict=True):
            bar.set_hatch('///' if paper else '')
        bottom = {column: low + height for (column, low), height
                  in zip(bottom.items(), heights, strict=True)}
    _fill_up(axis, chart, columns, bottom)
    axis.set_ylim(0.0, 1.06 * max([*bottom.values(), *chart.totals.values()], default=1.0))
    axis.set_xticks(range(len(columns)), [f'{name}\n(paper)' if paper else name
                                          for name, paper in columns])


def _fill_up(axis: Any, chart: Chart, columns: Sequence[tuple[str, bool]],
             bottom: dict[tuple[str, bool], float]) -> None:
    rest = [max(0.0, chart.totals[name] - bottom[name, paper]) if paper else 0.0
            for name, paper in columns]
    if any(rest):
        axis.bar(range(len(columns)), rest, 0.62, bottom=list(bottom.values()), color='white',
                 edgecolor='#999999', linewidth=0.7, label=NOT_STATED)


def _lines(axis: Any, chart: Chart) -> None:
    categories = _categories(chart.ours, chart.paper)
    for number, (series, row) in enumerate(chart.ours.items()):
        colour = _colour(series, number)
        places = [categories.index(name) for name in row]
        axis.plot(places, list(row.values()), marker='o', label=series, color=colour)
        stated = chart.paper.get(series, {})
        axis.plot([categories.index(name) for name in stated], list(stated.values()), marker='D',
                  linestyle='--', color=colour, markerfacecolor='white',
                  label=f'{series}, paper' if stated else '_')
    axis.set_xticks(range(len(categories)), categories)
    values = [value for table in (chart.ours, chart.paper) for row in table.values()
              for value in row.values()]
    axis.set_ylim(0.0, 1.1 * max(values, default=1.0))
