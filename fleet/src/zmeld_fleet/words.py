# SPDX-License-Identifier: GPL-2.0-or-later
"""Other people's text, made harmless.

Names of hosts, services and files come from machines that anybody may hold. What could
steer a terminal or turn text around is shown as an escape.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


class FleetError(Exception):
    """What stops a command, and the way out; with its exit code."""

    code = 2


LENGTH_MAX = 500


def inert(text: object) -> str:
    """One line without control, format or private characters, and not endless.

    What is inert already stays as it is.
    """
    shown = "".join(_inert(character) for character in str(text)[: LENGTH_MAX + 1])
    return shown if len(shown) <= LENGTH_MAX else shown[: LENGTH_MAX - 1] + "…"


def _inert(character: str) -> str:
    if character in " \u202f" or unicodedata.category(character)[0] not in "CZ":
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


def width(text: str) -> int:
    """Columns that it takes on a terminal."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def grouped(text: str) -> str:
    """A number with narrow blanks between thousands, from five digits on."""
    whole, point, fraction = text.partition(".")
    if len(whole.lstrip("-")) >= 5:
        whole = f"{int(whole):,}".replace(",", "\u202f")
    return whole + point + fraction


def plural(count: int, one: str, many: str) -> str:
    """`1 machine`, `2 machines`, `12 345 machines`."""
    return f"{grouped(str(count))} {one if count == 1 else many}"


def listed(texts: Iterable[str], most: int = 12) -> str:
    """`a, b, c`, in order; of very many the first, and how many more there are."""
    known = sorted(set(texts))
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(inert(text)[:80] for text in known[:most]) + more
