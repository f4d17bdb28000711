# SPDX-License-Identifier: GPL-2.0-or-later
"""A document: what the terminal and a page show, before it is either."""

from __future__ import annotations

from dataclasses import dataclass, field


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
    """Horizontal bars of fractions: for each name one of each series, where it is known."""

    caption: str
    series: list[str]
    rows: list[tuple[str, list[float | None]]]


@dataclass(frozen=True)
class Code:
    """Text as it stands in a file, and what file."""

    name: str
    text: str


Block = str | Table | Bars | Code


@dataclass
class Section:
    """A heading and what stands below it."""

    heading: str
    blocks: list[Block] = field(default_factory=list)


@dataclass
class Document:
    """A title, sentences that say the most, and the rest."""

    title: str
    lead: str
    sections: list[Section] = field(default_factory=list)
