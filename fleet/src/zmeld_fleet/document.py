# SPDX-License-Identifier: GPL-2.0-or-later
"""A document: what the terminal and a page show, before it is either."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Column:
    """A column's head; numbers stand at the right."""

    head: str
    number: bool = True


@dataclass(frozen=True)
class Table:
    """Rows of text."""

    columns: list[Column]
    rows: list[list[str]]
    caption: str = ""


@dataclass(frozen=True)
class Bars:
    """Horizontal bars of fractions, one of each series for each name."""

    caption: str
    axis: str
    """What the values are."""
    series: list[str]
    names: list[str]
    values: list[list[float | None]]
    """Of each series, a value for each name."""
    ends: list[list[tuple[float, float]]]
    """Of each value, the ends of its interval."""


@dataclass(frozen=True)
class Lines:
    """Fractions over days."""

    caption: str
    axis: str
    days: list[str]
    series: dict[str, list[float]]


@dataclass(frozen=True)
class Code:
    """Text as it stands in a file."""

    text: str


@dataclass(frozen=True)
class Note:
    """A sentence that stands out: `Note`, `Advice` or `Warning`."""

    word: str
    text: str


Block = str | Table | Bars | Lines | Code | Note


@dataclass
class Section:
    """A heading and what stands below it."""

    heading: str
    blocks: list[Block] = field(default_factory=list)


@dataclass
class Document:
    """A title, a sentence that says the most, and the rest."""

    title: str
    lead: str
    sections: list[Section] = field(default_factory=list)
