# SPDX-License-Identifier: GPL-2.0-or-later
"""A document on the terminal: no line is longer than its width."""

from __future__ import annotations

import re
import textwrap

from zmeld_fleet.document import Block, Code, Document, Table
from zmeld_fleet.words import inert, width

GAP = 2
NAME_MIN = 8


def render(document: Document, columns: int = 80) -> str:
    """All of it but the bars, whose numbers stand in a table."""
    parts = [_wrapped(document.title, columns), _wrapped(document.lead, columns)]
    for section in document.sections:
        parts.append(_cut(inert(section.heading).upper(), columns))
        parts.extend(_block(block, columns) for block in section.blocks)
    return "\n\n".join(parts) + "\n"


def _block(block: Block, columns: int) -> str:
    if isinstance(block, str):
        return _wrapped(block, columns)
    if isinstance(block, Code):
        lines = (inert(line) for line in block.text.rstrip("\n").split("\n"))
        return "\n".join(_cut(f"  {line}".rstrip(), columns) for line in lines)
    if isinstance(block, Table):
        return table(block, columns)
    return _wrapped(f"{block.caption}.", columns)


def _wrapped(text: str, columns: int) -> str:
    """Numbers stay with their units."""
    glued = re.sub(r"([0-9]) (%|[KMGTP]?i?B)(?![A-Za-z])", "\\1\u00a0\\2", inert(text))
    lines = textwrap.wrap(glued, min(columns, 80))
    return "\n".join(lines).replace("\u00a0", " ")


def table(block: Table, columns: int) -> str:
    """Columns as wide as they need; where that is too much, names are cut, or a row is a list."""
    rows = [[inert(cell) for cell in row] for row in block.rows]
    cells = [block.heads, *rows]
    widths = [max(width(cell) for cell in column) for column in zip(*cells, strict=True)]
    texts = len(block.texts)
    while sum(widths) + GAP * (len(widths) - 1) > columns:
        widest = max(range(texts), key=lambda at: widths[at])
        if widths[widest] <= NAME_MIN:
            break
        widths[widest] -= 1
    caption = [_wrapped(block.caption, columns)] if block.caption else []
    if (wide := sum(widths) + GAP * (len(widths) - 1)) > columns:
        lists = [
            [f"{head}: {cell}" for head, cell in zip(block.heads, row, strict=True)]
            for row in rows
        ]
        return "\n\n".join(
            caption + ["\n".join(_cut(one, columns) for one in own) for own in lists]
        )
    lines = [_line(row, widths, texts) for row in cells]
    lines.insert(1, "─" * wide)
    return "\n".join(caption + lines)


def _line(cells: list[str], widths: list[int], texts: int) -> str:
    shown = []
    for at, (cell, wide) in enumerate(zip(cells, widths, strict=True)):
        cut = _cut(cell, wide)
        blank = " " * (wide - width(cut))
        shown.append(cut + blank if at < texts else blank + cut)
    return (" " * GAP).join(shown).rstrip()


def _cut(text: str, wide: int) -> str:
    if width(text) <= wide:
        return text
    kept = ""
    for character in text:
        if width(kept + character) > wide - 1:
            break
        kept += character
    return kept + "…"
