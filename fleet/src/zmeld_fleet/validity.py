# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the rows of a file can be true: their ranges, and how they fit together.

One survey that says what no machine can would spoil the sums of all. What is checked here
is what sums and bounds need; who may write surveys is believed for the rest.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zmeld_fleet import schema
from zmeld_fleet.words import plural

PAGES_MAX = 1 << 40
BYTES_MAX = 1 << 60
RAM_MAX, RAM_UNKNOWN = 1 << 52, 1 << 44
OF_RAM = 4
"""The owners cannot have so many times the RAM; some pages may be counted again."""
SLACK = 16
"""An estimate may err by so much before it is not believed."""
YEAR_2000_US, YEAR_2200_US = 946_684_800_000_000, 7_258_118_400_000_000
TEXT_MAX = 1 << 13
ROUNDED = 1 << 14
"""Bytes to which surveys round what pages take."""
FILE = "file"
"""The column of a row's file, where rows of many are checked at once."""

_ESTIMATED = ("pages_distinct", *(f"{of}_{c}" for c in schema.CODECS for of in ("pool", "melded")))
_NEEDED = {
    "machine": ("rows", "key_id", "page_size"),
    "owner": ("owner", "pages", "pages_zero", "pages_same", "theta")
    + tuple(f"{name}{end}" for name in _ESTIMATED for end in ("", "_low", "_high")),
    "size": ("object_class", "count", *schema.SIZE_COLUMNS),
    "label": ("label_name", "label_value"),
}


def _bounds() -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    for name, kind in (schema.MACHINE_COLUMNS | schema.OWNER_COLUMNS).items():
        if pa.types.is_integer(kind):
            found[name] = (0, BYTES_MAX if name.endswith("_bytes") else PAGES_MAX)
        elif pa.types.is_floating(kind):
            least = -float(BYTES_MAX) if name.endswith("_low") else 0.0
            found[name] = (least, 100.0 if name.endswith("_avg300") else float(BYTES_MAX))
    # An uptime below 0 is a clock that is wrong, which has a reason of its own.
    found |= {"page_size": (1 << 10, 1 << 20), "uptime_seconds": (-1e10, 1e10)}
    found |= {"ram_bytes": (0, RAM_MAX), "count": (1, PAGES_MAX)}
    found |= {"theta": (schema.HASH_MIN + 1, schema.THETA_ALL)}
    found |= {"object_class": (0, schema.CLASSES - 1)}
    return found | dict.fromkeys(schema.SIZE_COLUMNS, (0, BYTES_MAX))


BOUNDS = _bounds()


class Reason(Enum):
    """Why something is left out: its name, and the same for people, of one or of many."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Reason:
        """The name is its value."""
        made = object.__new__(cls)
        made._value_, made.meaning = value, meaning
        return made

    @property
    def is_expected(self) -> bool:
        """What happens every day: it is counted, and named in --json alone."""
        return self in (Reason.SUPERSEDED, Reason.REPLACED, Reason.REFUSED)

    UNREADABLE = "unreadable", "refused by the system or the store, as to who may not read it"
    DAMAGED = "damaged", "cut off, broken, or no Parquet"
    VERSION = "version", "another version of the format"
    COLUMNS = "columns", "columns that are missing, or are others"
    ROWS = "rows", "another number of rows than it says"
    DIGEST = "digest", "its bytes were changed after it was written"
    KEY = "key", "made with another key"
    PAGE_SIZE = "page-size", "another size of pages"
    CLOCK = "clock", "a time that cannot be right"
    SUPERSEDED = "superseded", "the machine was surveyed again later"
    REPLACED = "replaced", "the host started anew under another machine id"
    TWICE = "twice", "the same survey in two files"
    INTERRUPTED = "interrupted", "stopped before everything was read"
    REFUSED = "pressure", "memory was short: the machine gave no survey"
    SELECTION = "selection", "of some processes only"
    PARTIAL = "partial", "1 % of the memory in use or more was refused to it"
    SKETCH = "sketch", "sketches far smaller than most"
    SAME_ID = "same-id", "two hosts with one machine id"
    VALUES = "values", "it says what cannot be true"
    NAME = "name", "a name that no survey has"


class FlawError(Exception):
    """A file or a row that cannot be true: which, and why."""

    def __init__(self, why: str, reason: Reason = Reason.VALUES) -> None:
        super().__init__(why)
        self.reason = reason


def check_values(table: pa.Table) -> None:
    """Every value by itself, of rows of any kind."""
    table.validate(full=True)
    for name in ("schema", "record", "machine", "survey", "time"):
        if table[name].null_count:
            raise FlawError(f"{name} is NULL in {plural(table[name].null_count, 'row', 'rows')}")
    for name in ("machine", "survey"):
        texts = pc.unique(table[name].cast(pa.string()))
        if not pc.all(pc.match_substring_regex(texts, "^[0-9a-f]{32}$"), min_count=0).as_py():
            raise FlawError(f"{name} is not 32 hexadecimal digits")
    _check_range("time", table["time"].cast(pa.int64()), YEAR_2000_US, YEAR_2200_US)
    for name in table.column_names:
        if name in BOUNDS:
            _check_range(name, table[name], *BOUNDS[name])


def check_texts(name: str, texts: pa.Array) -> pa.Array:
    """No text is longer than any path of a control group; gives their lengths."""
    lengths = pc.binary_length(texts)
    if (pc.max(lengths).as_py() or 0) > TEXT_MAX:
        raise FlawError(f"{name} has a text of more than {plural(TEXT_MAX, 'byte', 'bytes')}")
    return lengths


def _check_range(name: str, column: pa.ChunkedArray, least: float, most: float) -> None:
    if pa.types.is_floating(column.type) and not pc.all(pc.is_finite(column), min_count=0).as_py():
        raise FlawError(f"{name} is no number")
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is not None and (low < least or high > most):
        wrong = low if low < least else high
        raise FlawError(f"{name} is {wrong}, it has to be {least} to {most}")


def rows_about(facts: pa.Table, record: str) -> pa.Table:
    """The rows of one kind, which have what such rows need."""
    rows = facts.filter(pc.equal(facts["record"], record))
    for name in _NEEDED[record]:
        if rows[name].null_count:
            raise FlawError(f"{name} is NULL in a row about its {record}")
    return rows


def machine_of(rows: pa.Table, machines: pa.Table) -> np.ndarray:
    """Which of the machines each row is about."""
    surveys = machines["survey"].cast(pa.string()).combine_chunks()
    found = pc.index_in(rows["survey"].cast(pa.string()), surveys)
    if not found.null_count:
        at: np.ndarray = found.to_numpy()
        if (machines[FILE].to_numpy()[at] == rows[FILE].to_numpy()).all():
            return at
    raise FlawError("a row is of a survey without a row about its machine")


def check_machines(machines: pa.Table) -> None:
    """Each survey has one machine."""
    if not len(machines):
        raise FlawError("no row says which machine it is")
    if len(pc.unique(machines["survey"])) < len(machines):
        raise FlawError("a survey has two rows about its machine")


def check_owners(owners: pa.Table, machines: pa.Table) -> np.ndarray:
    """Owners against what their survey says of its machine; gives the machine of each."""
    at = machine_of(owners, machines)
    if len(owners.group_by(["survey", "owner"]).aggregate([])) < len(owners):
        raise FlawError("an owner is there twice")
    page, ram = _said(machines, "page_size", 1), _said(machines, "ram_bytes", RAM_UNKNOWN)
    pages, zero, same = (floats(owners, n) for n in ("pages", "pages_zero", "pages_same"))
    if (zero + same > pages).any():
        raise FlawError("an owner has more pages of zeros and same-filled pages than pages")
    theta = owners["theta"].to_numpy()
    expected = (theta.astype(np.float64) - schema.HASH_MIN) / 2.0**64 * (pages - zero - same)
    least = _said(machines, "sketch_size", 1)[at] / SLACK
    if ((theta != schema.THETA_ALL) & (expected < least)).any():
        raise FlawError("an owner's theta is too small for its pages and its sketch's size")
    for name in _ESTIMATED:
        of_pages = name == "pages_distinct"
        most = pages + 1.0 if of_pages else (pages + 1.0) * page[at] + ROUNDED
        value, low, high = (floats(owners, f"{name}{end}") for end in ("", "_low", "_high"))
        if (np.maximum(high, -low) > SLACK * most).any() or (value > 4 * most).any():
            raise FlawError(f"{name} is more than its pages can take")
        if (low > high * (1.0 + 1e-6) + ROUNDED).any():
            raise FlawError(f"{name} has an interval that ends before it begins")
    if (np.bincount(at, pages, len(machines)) * page > OF_RAM * ram).any():
        raise FlawError(f"a survey has more pages than {OF_RAM} times the machine's RAM")
    return at


def check_sizes(sizes: pa.Table, machines: pa.Table) -> None:
    """What contents of a class take on average is of that class, and no more than a page."""
    at, count = machine_of(sizes, machines), floats(sizes, "count")
    page, rows = _said(machines, "page_size", 1)[at], _said(machines, "rows", 0)
    if (np.bincount(at, count, len(machines)) > rows).any():
        raise FlawError("classes of sizes have more contents than the survey's rows")
    of, eighth = floats(sizes, "object_class"), count * page / schema.CLASSES
    if len({*zip(at, of, strict=True)}) < len(of):
        raise FlawError("a class of sizes is there twice")
    taken = floats(sizes, "bytes_zstd")
    if ((taken < of * eighth - ROUNDED) | (taken > (of + 1.0) * eighth + ROUNDED)).any():
        raise FlawError("bytes_zstd is not of its class")
    for codec in schema.CODECS:
        for name, most in ((f"bytes_{codec}", page), (f"squares_{codec}", page**2)):
            if (floats(sizes, name) > (count + ROUNDED / 1024) * most).any():
                raise FlawError(f"{name} is more than its contents can take")


def _said(machines: pa.Table, name: str, otherwise: int) -> np.ndarray:
    return np.array([one or otherwise for one in machines[name].to_pylist()], np.float64)


def floats(rows: pa.Table, name: str) -> np.ndarray:
    """A column as numbers; NULL is not a number."""
    return rows[name].to_numpy().astype(np.float64)
