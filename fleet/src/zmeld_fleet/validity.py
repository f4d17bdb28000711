# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the rows of a file can be true: their ranges, and how they fit together.

One survey that says what no machine can would spoil the sums of all. What is checked here
is what sums and bounds need; who may write surveys is believed for the rest.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zmeld_fleet import schema
from zmeld_fleet.words import plural

FACT_ROWS_MAX = 1 << 17
"""Of a row group that is not of contents alone: it has many columns."""
CONTENT_ROWS_MAX = 1 << 20
GROUP_BYTES_MAX = 1 << 28
TEXT_MAX = 4096
LABELS_MAX = 64
"""Of a survey."""
PAGES_MAX = 1 << 40
PAGE_MIN, PAGE_MAX = 1 << 10, 1 << 20
BYTES_MAX = 1 << 60
SECONDS_MAX = 1e10
YEAR_2000_US, YEAR_2200_US = 946_684_800_000_000, 7_258_118_400_000_000
SLACK = 16
"""An estimate may err by so much before it is not believed."""
VALUE_SLACK = 4
"""The same of what pages take: none takes more than a page."""
OF_RAM = 4
"""The owners cannot have so many times the RAM; some pages may be counted again."""
RAM_MAX, RAM_UNKNOWN = 1 << 52, 1 << 44
FLEET_RAM_MAX = 1 << 58
"""Of all machines: engines add up 64 bits."""
SQUARES_MAX = float(1 << 62)
"""Of a survey's half-widths, in blocks or pages: they are squared and added up."""
OWNERS_MAX = 1024
"""Of a survey, which has 64."""

ROW_BYTES, FACT_BYTES, MACHINE_BYTES = 0.25, 16, 512
"""Bytes of a file for each row, for each that is not of contents, and for each about a machine.
Hashes, chance and measurements cannot be written in fewer (a united file has some 24 bytes
for a row), and so what is read takes time and memory in proportion to what was written."""

_COMMON = ("schema", "record", "machine", "survey", "time")
_ESTIMATED = ("pages_distinct", *(f"{of}_{c}" for c in schema.CODECS for of in ("pool", "melded")))
_NEEDED = {
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
            found[name] = (0.0, float(BYTES_MAX))
            if name.endswith("_low"):
                found[name] = (-float(BYTES_MAX), float(BYTES_MAX))
    found |= {"page_size": (PAGE_MIN, PAGE_MAX), "sketch_size": (1, PAGES_MAX)}
    found["ram_bytes"] = (0, RAM_MAX)
    found |= {"theta": (schema.HASH_MIN + 1, schema.THETA_ALL), "count": (1, PAGES_MAX)}
    found |= {name: (0.0, 100.0) for name in found if name.endswith("_avg300")}
    # An uptime below 0 is a clock that is wrong, which has a reason of its own.
    found["uptime_seconds"] = (-SECONDS_MAX, SECONDS_MAX)
    found["object_class"] = (0, schema.CLASSES - 1)
    found |= dict.fromkeys(schema.SIZE_COLUMNS, (0, BYTES_MAX))
    return found


BOUNDS = _bounds()


class Reason(Enum):
    """Why something is left out: its name, and the same for people, of one or of many."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Reason:
        """The name is its value."""
        made = object.__new__(cls)
        made._value_, made.meaning = value, meaning
        return made

    UNREADABLE = "unreadable", "refused by the system or the store, as to who may not read it"
    TRUNCATED = "truncated", "cut off"
    NOT_PARQUET = "not-parquet", "something else than Parquet"
    DAMAGED = "damaged", "broken: its bytes make no sense"
    VERSION = "version", "another version of the format"
    COLUMNS = "columns", "columns that are missing, or are others"
    ROWS = "rows", "another number of rows than it says"
    DIGEST = "digest", "its bytes were changed after it was written"
    KEY = "key", "made with another key"
    PAGE_SIZE = "page-size", "another size of pages"
    CLOCK = "clock", "a time that cannot be right"
    SUPERSEDED = "superseded", "surveyed again on that day"
    TWICE = "twice", "the same survey in two files"
    INTERRUPTED = "interrupted", "stopped before everything was read"
    SELECTION = "selection", "of some processes only"
    PARTIAL = "partial", "processes were refused to it"
    SKETCH = "sketch", "sketches far smaller than most"
    SAME_ID = "same-id", "two hosts with one machine id"
    VALUES = "values", "it says what cannot be true"
    NAME = "name", "a name that no survey has"


class FlawError(Exception):
    """A file or a row that cannot be true: which, and why."""

    def __init__(self, why: str, reason: Reason = Reason.VALUES) -> None:
        super().__init__(why)
        self.reason = reason


def check_size(group: pq.RowGroupMetaData, most: int) -> None:
    """Before it is read: a few bytes on disk can be very many in memory."""
    if group.num_rows > most or group.total_byte_size > GROUP_BYTES_MAX:
        size = f"{plural(group.num_rows, 'row', 'rows')} and {group.total_byte_size} bytes"
        raise FlawError(f"a row group has {size}; {most} and {GROUP_BYTES_MAX} are the most")


def check_values(table: pa.Table) -> None:
    """Every value by itself, of rows of any kind."""
    table.validate(full=True)
    for name in table.column_names:
        column = table[name]
        if name in _COMMON and column.null_count:
            rows = plural(column.null_count, "row", "rows")
            raise FlawError(f"{name} is NULL in {rows}")
        if pa.types.is_dictionary(column.type):
            _check_texts(name, column)
        elif name == "time":
            _check_range(name, column.cast(pa.int64()), YEAR_2000_US, YEAR_2200_US)
        elif name in BOUNDS:
            _check_range(name, column, *BOUNDS[name])


def _check_texts(name: str, column: pa.ChunkedArray) -> None:
    for chunk in column.chunks:
        longest = pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0
        if longest > TEXT_MAX:
            raise FlawError(f"{name} has {longest} bytes, {TEXT_MAX} are the most")
        if name in ("machine", "survey"):
            hexadecimal = pc.match_substring_regex(chunk.dictionary, "^[0-9a-f]{32}$")
            if not pc.all(hexadecimal, min_count=0).as_py():
                raise FlawError(f"{name} is not 32 hexadecimal digits")


def _check_range(name: str, column: pa.ChunkedArray, least: float, most: float) -> None:
    if pa.types.is_floating(column.type) and not pc.all(pc.is_finite(column), min_count=0).as_py():
        raise FlawError(f"{name} is no number")
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is not None and (low < least or high > most):
        wrong = low if low < least else high
        raise FlawError(f"{name} is {wrong}, it has to be {least} to {most}")


def check_count(what: str, count: int, bytes_each: float, size: int) -> None:
    """Few bytes can say very many rows: before more of them take memory."""
    if count * bytes_each > size:
        raise FlawError(f"{count} {what} are more than {size} bytes can say")


def rows_about(facts: pa.Table, record: str) -> pa.Table:
    """The rows of one kind."""
    return facts.filter(pc.equal(facts["record"].cast(pa.string()), record))


def check_machines(surveys: list[str], size: int) -> None:
    """Each survey has one machine."""
    check_count("machines", len(surveys), MACHINE_BYTES, size)
    (name, count), *_ = [*Counter(surveys).most_common(1), ("", 0)]
    if count > 1:
        raise FlawError(f"survey {name} has two rows about its machine")


def check_labels(labels: pa.Table, machines: int) -> None:
    """They have names and values, and are not endless."""
    if len(labels) > LABELS_MAX * machines:
        raise FlawError(f"a survey has more than {LABELS_MAX} labels")
    _check_needed(labels, schema.LABEL)


def _check_needed(rows: pa.Table, record: str) -> None:
    for name in _NEEDED[record]:
        if rows[name].null_count:
            raise FlawError(f"{name} is NULL in a row about its {record}")


def check_owners(owners: pa.Table, machines: pa.Table) -> None:
    """Owners against what their survey says of its machine."""
    _check_needed(owners, schema.OWNER)
    at = _machine_of(owners, machines)
    names = (owners[name].to_pylist() for name in ("survey", "owner"))
    if len({*zip(*names, strict=True)}) < len(owners):
        raise FlawError("an owner is there twice")

    def sums(values: np.ndarray) -> np.ndarray:
        return np.bincount(at, values, len(machines))

    page = _said(machines, "page_size", PAGE_MIN)
    ram = _said(machines, "ram_bytes", RAM_UNKNOWN)
    pages, zero, same = (_floats(owners, n) for n in ("pages", "pages_zero", "pages_same"))
    if (zero + same > pages).any():
        raise FlawError("an owner has more pages of zeros and same-filled pages than pages")
    theta = owners["theta"].to_numpy()
    share = (theta.astype(np.float64) - schema.HASH_MIN) / 2.0**64
    expected = share * SLACK * (pages - zero - same)
    if ((theta != schema.THETA_ALL) & (expected < _said(machines, "sketch_size", 1)[at])).any():
        raise FlawError("an owner's theta is too small for its pages and its sketch's size")
    for name in _ESTIMATED:
        _check_estimate(owners, name, (pages + 1.0) * (1.0 if name[:6] == "pages_" else page[at]))
    if (sums(np.ones(len(at))) > OWNERS_MAX).any():
        raise FlawError(f"a survey has more than {OWNERS_MAX} owners")
    if (sums(pages) * page > OF_RAM * ram).any():
        raise FlawError(f"a survey has more pages than {OF_RAM} times the machine's RAM")
    widths = {f"pool_{codec}": float(schema.BLOCK) for codec in schema.CODECS} | {
        "pages_distinct": 1.0
    }
    for name, unit in widths.items():
        width = _floats(owners, f"{name}_high") - _floats(owners, f"{name}_low")
        if (sums((width / (2.0 * unit)) ** 2) > SQUARES_MAX).any():
            raise FlawError(f"{name} has intervals that are too wide to be added up")


def check_sizes(sizes: pa.Table, owned: pa.Table, machines: pa.Table) -> None:
    """What contents of a class take on average is of that class, and no more than a page."""
    _check_needed(sizes, schema.SIZE)
    at, count = _machine_of(sizes, machines), _floats(sizes, "count")
    page, rows = _said(machines, "page_size", PAGE_MIN)[at], _said(machines, "rows", 0)
    owners = np.bincount(_machine_of(owned, machines), minlength=len(machines))
    most = np.minimum(rows, owners * _said(machines, "sketch_size", PAGES_MAX))
    if (np.bincount(at, count, len(machines)) > most).any():
        raise FlawError("classes of sizes have more contents than the survey's rows or sketches")
    of, eighth = _floats(sizes, "object_class"), count * page / schema.CLASSES
    if len({*zip(at, of, strict=True)}) < len(of):
        raise FlawError("a class of sizes is there twice")
    taken = _floats(sizes, "bytes_zstd")
    if ((taken < of * eighth) | (taken > (of + 1.0) * eighth)).any():
        raise FlawError("bytes_zstd is not of its class")
    for codec in schema.CODECS:
        for name, most in ((f"bytes_{codec}", page), (f"squares_{codec}", page**2)):
            if (_floats(sizes, name) > count * most).any():
                raise FlawError(f"{name} is more than its contents can take")


def _machine_of(rows: pa.Table, machines: pa.Table) -> np.ndarray:
    """Which of the machines each row is about."""
    surveys = machines["survey"].cast(pa.string()).combine_chunks()
    found = pc.index_in(rows["survey"].cast(pa.string()), surveys)
    if found.null_count:
        raise FlawError("a row is of a survey without a row about its machine")
    return found.to_numpy()


def _said(machines: pa.Table, name: str, otherwise: int) -> np.ndarray:
    return np.array([one or otherwise for one in machines[name].to_pylist()], np.float64)


def _floats(owners: pa.Table, name: str) -> np.ndarray:
    return owners[name].to_numpy().astype(np.float64)


def _check_estimate(owners: pa.Table, name: str, most: np.ndarray) -> None:
    value, low, high = (_floats(owners, f"{name}{end}") for end in ("", "_low", "_high"))
    wide = np.maximum(high, -low) > SLACK * most
    if (wide | (value > VALUE_SLACK * most)).any():
        raise FlawError(f"{name} is more than its pages can take")
    if (low > high + 1.0 + 1e-6 * np.abs(high)).any():
        raise FlawError(f"{name} has an interval that ends before it begins")


def surveys_of_contents(contents: pa.Table) -> set[str | None]:
    """Whose they are, if their counts and classes can be true."""
    for name in ("count", "object_class"):
        _check_range(name, contents[name], *BOUNDS[name])
    return {*pc.unique(contents["survey"].cast(pa.string())).to_pylist()}
