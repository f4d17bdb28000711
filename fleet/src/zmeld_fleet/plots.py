# SPDX-License-Identifier: GPL-2.0-or-later
"""Plots as SVG inside of a page, in the page's own colours.

matplotlib draws with marked colours; they become the page's variables, so that one
drawing is right in light and in dark.
"""

from __future__ import annotations

import io
import logging
import re
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from zmeld_fleet.document import Bars, Lines
from zmeld_fleet.words import inert

logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)

_MARKS = {f"#0a0b{at:02x}": f"var(--c{at})" for at in range(8)}
_TEXT, _GRID = "#0a0c01", "#0a0c02"
_MARKS |= {_TEXT: "var(--text)", _GRID: "var(--line)"}
_SERIES = [mark for mark in _MARKS if mark.startswith("#0a0b")]

_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "zmeld",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _TEXT,
    "axes.labelcolor": _TEXT,
    "axes.edgecolor": _GRID,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
    "grid.color": _GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
}
WIDTH = 6.6
NAME_WIDTH = 22


def bars(plot: Bars) -> str:
    """Groups of horizontal bars from zero, with their intervals."""
    step = len(plot.series) + 1
    with _drawn(plot.caption, 1.2 + 0.16 * len(plot.names) * step) as (axes, drawn):
        for at, (series, found) in enumerate(plot.series.items()):
            below = [one.value - one.low for one in found]
            above = [one.high - one.value for one in found]
            axes.barh(
                [group * step + at for group in range(len(plot.names))],
                [one.value for one in found],
                0.9,
                xerr=[below, above],
                color=_SERIES[at % len(_SERIES)],
                ecolor=_TEXT,
                error_kw={"elinewidth": 0.8},
                label=inert(series),
            )
        ticks = [group * step + (step - 2) / 2 for group in range(len(plot.names))]
        axes.set_yticks(ticks, [_folded(name) for name in plot.names])
        axes.invert_yaxis()
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        axes.set_xlabel(plot.axis)
        axes.grid(axis="x")
    return drawn[0]


def lines(plot: Lines) -> str:
    """A line for each series."""
    with _drawn(plot.caption, 3.2) as (axes, drawn):
        for at, (name, values) in enumerate(plot.series.items()):
            colour = _SERIES[at % len(_SERIES)]
            axes.plot(range(len(values)), values, marker="o", color=colour, label=inert(name))
        step = max(1, len(plot.days) // 5)
        axes.set_xticks(range(0, len(plot.days), step), plot.days[::step])
        axes.set_ylim(bottom=0.0)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        axes.set_ylabel(plot.axis)
        axes.set_xlabel("day")
        axes.grid(axis="y")
    return drawn[0]


def _folded(name: str) -> str:
    """The whole name, on as many lines as it takes."""
    return "\n".join(textwrap.wrap(inert(name), NAME_WIDTH)) or name


@contextmanager
def _drawn(label: str, height: float) -> Iterator[tuple[Any, list[str]]]:
    """Axes, and what is drawn in them as SVG when that is done."""
    drawn: list[str] = []
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield figure.subplots(), drawn
        figure.legend(loc="outside upper center", ncols=2)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    for left in ("<metadata>.*?</metadata>", '<style type="text/css">.*?</style>'):
        svg = re.sub(left, "", svg, flags=re.DOTALL)
    for mark, colour in _MARKS.items():
        svg = svg.replace(mark, colour)
    named = escape(inert(label))
    drawn.append(svg.replace("<svg ", f'<svg role="img" aria-label="{named}" ', 1))
