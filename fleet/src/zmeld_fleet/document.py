# SPDX-License-Identifier: GPL-2.0-or-later
"""A document: what the terminal and a page show, before it is either."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmeld_fleet.estimate import Estimate


@dataclass(frozen=True)
class Table:
    """Rows: first the columns of texts, then those of numbers, which stand at the right."""

    texts: list[str]
    numbers: list[str]
    rows: list[list[str]]
    caption: str = ""

    @property
    def heads(self) -> list[str]:
        """The heads of all columns."""
        return self.texts + self.numbers


@dataclass(frozen=True)
class Bars:
    """Horizontal bars of fractions, one of each series for each name, with their intervals."""

    caption: str
    axis: str
    """What the values are."""
    names: list[str]
    series: dict[str, list[Estimate]]
    """Of each a value for each name."""


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
    """A warning that stands out."""

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
