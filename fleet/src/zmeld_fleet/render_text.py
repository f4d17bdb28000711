# SPDX-License-Identifier: GPL-2.0-or-later
"""A document on the terminal: no line is longer than its width."""

from __future__ import annotations

import re
import textwrap
from itertools import zip_longest

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


def _glued(text: str) -> str:
    """Numbers stay with their units."""
    return re.sub(r"([0-9]) (%|[KMGTP]?i?B)(?![A-Za-z])", "\\1\u00a0\\2", text)


def _wrapped(text: str, columns: int) -> str:
    lines = textwrap.wrap(_glued(inert(text)), min(columns, 80))
    return "\n".join(lines).replace("\u00a0", " ")


def table(block: Table, columns: int) -> str:
    """Columns as wide as they need; where that is too much, texts fold, or a row is a list."""
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
    shown = [_row(row, widths, texts) for row in cells]
    shown.insert(1, "─" * wide)
    return "\n".join(caption + shown)


def _row(cells: list[str], widths: list[int], texts: int) -> str:
    folded = [_folded(cell, wide) for cell, wide in zip(cells, widths, strict=True)]
    lines = []
    for parts in zip_longest(*folded, fillvalue=""):
        shown = ""
        for at, (part, wide) in enumerate(zip(parts, widths, strict=True)):
            blank = " " * (wide - width(part))
            shown += (part + blank if at < texts else blank + part) + " " * GAP
        lines.append(shown.rstrip())
    return "\n".join(lines)


def _folded(text: str, wide: int) -> list[str]:
    """Lines that end with a word or a part of a name, or where there is no room."""
    lines = [""]
    for part in re.findall(r"(?:[^ /._:@,-]|[.,](?=[0-9]))*[ /._:@,-]?", _glued(text)):
        if width((lines[-1] + part).rstrip()) > wide and lines[-1]:
            lines.append("")
        for character in part:
            if width((lines[-1] + character).rstrip()) > wide:
                lines.append("")
            lines[-1] += character
    return [line.rstrip().replace("\u00a0", " ") for line in lines]


def _cut(text: str, wide: int) -> str:
    if width(text) <= wide:
        return text
    kept = ""
    for character in text:
        if width(kept + character) > wide - 1:
            break
        kept += character
    return kept + "…"
