# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A chart as data, and its drawing: ours beside the paper's."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

from memspec_ros.errors import DependencyError

Table = dict[str, dict[str, float]]
"""{series: {category: value}}"""

WIDTH_INCHES, HEIGHT_INCHES, DPI = 10.0, 3.6, 110


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One figure.

    :param kind: 'bars' (series side by side), 'stacked' (series are the parts of each
        category), or 'lines' (categories along the axis).
    :param ours: what was measured here; ``paper`` what the paper's text states, where it does.
    :param note: how it was made.
    """

    name: str
    title: str
    kind: str
    unit: str
    ours: Table
    paper: Table = field(default_factory=dict)
    note: str = ''


def draw(chart: Chart) -> bytes:
    """Return a chart as PNG.

    :raises DependencyError: matplotlib is not installed.
    """
    figure_class = _figure_class()
    figure = figure_class(figsize=(WIDTH_INCHES, HEIGHT_INCHES), dpi=DPI, layout='constrained')
    panels = [('ours', chart.ours)] + ([('paper', chart.paper)] if chart.paper else [])
    widths = [max(2, _num_bars(table)) for _, table in panels]
    axes = figure.subplots(1, len(panels), squeeze=False, width_ratios=widths)[0]
    for axis, (title, table) in zip(axes, panels, strict=True):
        {'bars': _bars, 'stacked': _stacked, 'lines': _lines}[chart.kind](axis, table)
        axis.set_title(title, fontsize=9)
        axis.set_ylabel(chart.unit, fontsize=8)
        axis.tick_params(labelsize=7)
        axis.legend(fontsize=6.5)
    figure.suptitle(chart.title, fontsize=10)
    buffer = io.BytesIO()
    figure.savefig(buffer, format='png', metadata={'Software': None})
    return buffer.getvalue()


def _figure_class() -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise DependencyError('the report draws with matplotlib: pip install matplotlib') \
            from error

    def make(**options: Any) -> Any:
        figure = Figure(**options)
        FigureCanvasAgg(figure)
        return figure
    return make


def _categories(table: Table) -> list[str]:
    return list(dict.fromkeys(name for row in table.values() for name in row))


def _num_bars(table: Table) -> int:
    return len(table) * len(_categories(table))


def _bars(axis: Any, table: Table) -> None:
    categories, width = _categories(table), 0.8 / max(1, len(table))
    for number, (series, row) in enumerate(table.items()):
        places = [at + number * width for at, name in enumerate(categories) if name in row]
        axis.bar(places, [row[name] for name in categories if name in row], width, label=series)
    axis.set_xticks([at + 0.4 - width / 2 for at in range(len(categories))], categories)


def _stacked(axis: Any, table: Table) -> None:
    categories = _categories(table)
    bottom = [0.0] * len(categories)
    for series, row in table.items():
        heights = [row.get(name, 0.0) for name in categories]
        axis.bar(categories, heights, 0.6, bottom=bottom, label=series)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]


def _lines(axis: Any, table: Table) -> None:
    for series, row in table.items():
        axis.plot(list(row), list(row.values()), marker='o', label=series)
    axis.set_ylim(bottom=0.0)
