# SPDX-License-Identifier: GPL-2.0-or-later
"""Surveys of machines whose every page is known, written as docs/survey.md says."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zmeld_fleet import catalogue, places, schema
from zmeld_fleet.writing import MAGIC, TEXTS, digest_of

KEY_ID = "0123456789abcdef"
NOON = datetime(2026, 3, 14, 12, 0, 0, tzinfo=timezone.utc)
GIB = 2**30
PAGE = 4096
SIZES = {"lzo_rle": 1.5, "lz4": 1.4, "zstd": 2.2, "zword": 2.4}
ROUND = 1 << 14
"""What pages take is told in steps of so many bytes."""
DRAWN = 1024
CLASS_MIN = 256


def mixed(numbers: np.ndarray) -> np.ndarray:
    """splitmix64: numbers as good as drawn."""
    x = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def contents(name: object, count: int, start: int = 0) -> np.ndarray:
    """So many different contents, the same ones for a name."""
    base = int.from_bytes(hashlib.blake2b(repr(name).encode(), digest_size=8).digest(), "big")
    return mixed(np.uint64(base) + np.arange(start, start + count, dtype=np.uint64))


def program(name: object, own: int, shared: int = 0, library: str = "libc") -> np.ndarray:
    """A program's pages: some of its own, some of a library that others load as well."""
    return np.concatenate([contents(name, own), contents(library, shared)])


def hashes(pages: np.ndarray, key: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """The two halves of a keyed hash."""
    return tuple(mixed(pages ^ np.uint64(key << 8 | at)).view(np.int64) for at in (1, 2))


def taken(pages: np.ndarray, codec: str) -> np.ndarray:
    """What contents take: some more, some less, the same everywhere."""
    spread = 0.5 + (mixed(pages ^ np.uint64(77)) & np.uint64(0xFFFF)).astype(float) / 0x10000
    return np.minimum(PAGE, np.round(PAGE / SIZES[codec] * spread))


def classes(pages: np.ndarray) -> np.ndarray:
    """Which eighth of a page contents take with zstd."""
    return np.maximum(np.ceil(taken(pages, "zstd") * schema.CLASSES / PAGE), 1).astype(int) - 1


@dataclass
class Owner:
    """A service with its pages, by content."""

    name: str
    pages: np.ndarray
    kind: str = "service"
    zero: int = 0
    same: int = 0
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Machine:
    """A machine and what is asked about it."""

    name: str
    owners: list[Owner]
    labels: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    time: datetime = NOON
    survey: str = field(default_factory=lambda: secrets.token_hex(16))
    k: int = 1024

    @property
    def machine(self) -> str:
        """Its id."""
        return hashlib.blake2b(self.name.encode(), digest_size=16).hexdigest()


def rounded(value: float, step: int = ROUND) -> float:
    """To the next step."""
    return float(round(value / step) * step)


def ends(row: dict[str, Any], name: str, value: float, variance: float, step: int) -> None:
    """An estimate in three columns."""
    half = 1.96 * variance**0.5
    for end, at in (("", value), ("_low", value - half), ("_high", value + half)):
        row[f"{name}{end}"] = rounded(at, step) if step > 1 else at


def owner_row(owner: Owner, k: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The row about an owner with estimates as docs/survey.md has them, and its sketch."""
    distinct, counts = np.unique(owner.pages, return_counts=True)
    high, low = hashes(distinct)
    order = np.argsort(high)
    theta = schema.THETA_ALL
    if len(order) > k:
        theta = int(high[order[k]])
        order = order[:k]
    p, seen, all_pages = schema.sampled(theta), len(order), len(owner.pages)
    own = distinct[order]
    row: dict[str, Any] = {"record": "owner", "owner": owner.name, "kind": owner.kind}
    row |= {"name": owner.name.rpartition("/")[2], "processes": 1, "pages_swapped": 0}
    row |= {"pages": all_pages + owner.zero + owner.same, "pages_zero": owner.zero}
    row |= {"pages_same": owner.same, "theta": theta} | owner.facts
    ends(row, "pages_distinct", seen / p, seen / p * (seen / p - seen) / max(seen - 1, 1), 1)
    draw = np.random.default_rng(abs(theta) + all_pages)
    drawn = draw.choice(owner.pages, min(DRAWN, all_pages), replace=False)
    for codec in schema.CODECS:
        sizes, objects = taken(drawn, codec), taken(own, codec)
        spread = sizes.var(ddof=1) if len(sizes) > 1 else 0.0
        variance = (
            all_pages**2 * spread / max(len(sizes), 1) * (1 - len(sizes) / max(all_pages, 1))
        )
        ends(row, f"pool_{codec}", all_pages * sizes.mean() if all_pages else 0.0, variance, ROUND)
        variance = (objects**2).sum() * (1 - p) / p**2
        ends(row, f"melded_{codec}", objects.sum() / p, variance, ROUND)
    sketch = {"hash_high": high[order], "hash_low": low[order], "count": counts[order]}
    return row, sketch | {"object_class": classes(own), "pages": own}


def size_rows(sampled: np.ndarray) -> list[dict[str, Any]]:
    """The rows about classes of sizes, of those with contents enough."""
    rows = []
    for at in range(schema.CLASSES):
        own = sampled[classes(sampled) == at]
        row: dict[str, Any] = {"record": "size", "object_class": at, "count": len(own)}
        for codec in schema.CODECS:
            sizes = taken(own, codec)
            row[f"bytes_{codec}"] = int(rounded(sizes.sum()))
            row[f"squares_{codec}"] = int(rounded((sizes**2).sum(), ROUND * PAGE))
        rows += [row] if len(own) >= CLASS_MIN else []
    return rows


def table_of(machine: Machine) -> pa.Table:
    """All rows of a survey."""
    common = {"schema": schema.SCHEMA, "machine": machine.machine}
    common |= {"survey": machine.survey, "time": machine.time}
    made = [owner_row(owner, machine.k) for owner in machine.owners]
    sketches = [sketch for _, sketch in made]
    names = [
        one.name
        for one, sketch in zip(machine.owners, sketches, strict=True)
        for _ in sketch["count"]
    ]
    columns = {
        name: np.concatenate([np.zeros(0, np.int64), *(one[name] for one in sketches)])
        for name in ("hash_high", "hash_low", "count", "object_class")
    }
    order = np.lexsort((columns["hash_low"], columns["hash_high"]))
    first: list[dict[str, Any]] = [_facts(machine)]
    first += [
        {"record": "label", "label_name": name, "label_value": value}
        for name, value in machine.labels.items()
    ]
    first += [row for row, _ in made]
    first += size_rows(np.concatenate([contents(0, 0), *(one["pages"] for one in sketches)]))
    if first[0]["rows"] is None:
        first[0]["rows"] = len(first) + len(order)
    values: dict[str, Any] = {name: own[order] for name, own in columns.items()}
    values["owner"] = [names[at] for at in order]
    constant = common | {"record": "content"}
    rest = [
        pa.array(values[name], kind)
        if name in values
        else pa.repeat(pa.scalar(constant.get(name), kind), len(order))
        for name, kind in schema.COLUMNS.items()
    ]
    facts = pa.Table.from_pylist([common | row for row in first], schema=schema.ARROW)
    return pa.concat_tables([facts, pa.table(rest, schema=schema.ARROW)])


def _facts(machine: Machine) -> dict[str, Any]:
    return {
        "record": "machine",
        "key_id": KEY_ID,
        "host": machine.name,
        "zmeld_version": "0.1.0",
        "kernel": "6.12.0",
        "architecture": "x86_64",
        "distribution": "Debian GNU/Linux 12 (bookworm)",
        "page_size": PAGE,
        "ram_bytes": 8 * GIB,
        "swap_bytes": 0,
        "swap_used_bytes": 0,
        "compressed_swap": "none",
        "memory_some_avg300": 0.0,
        "memory_full_avg300": 0.0,
        "uptime_seconds": 3600.0,
        "interrupted": False,
        "sketch_size": machine.k,
        "rows": None,
    } | machine.facts


def write(place: Path, machine: Machine, table: pa.Table | None = None) -> Path:
    """The survey as a file below PLACE."""
    table = table_of(machine) if table is None else table
    folder = place / schema.FOLDER / f"date={machine.time:%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    chance = machine.survey[:8]
    path = folder / f"{machine.machine}-{machine.time:%Y%m%dT%H%M%SZ}-{chance}.parquet"
    facts = pc.sum(pc.not_equal(table["record"], schema.CONTENT)).as_py()
    settings = {"compression": "zstd", "use_dictionary": TEXTS, "store_schema": False}
    with open(path, "wb") as file, pq.ParquetWriter(file, table.schema, **settings) as writer:
        writer.write_table(table.slice(0, facts))
        writer.write_table(table.slice(facts))
        file.flush()
        with open(path, "rb") as written:
            length = path.stat().st_size - len(MAGIC)
            said = f"{digest_of(written, length):08x} {length}"
        writer.add_key_value_metadata({schema.DIGEST.decode(): said})
    return path


def read_rows(path: Path) -> pa.Table:
    """A file's rows without its metadata: its digest is of that file alone."""
    return pq.read_table(path, partitioning=None).replace_schema_metadata(None)


def plain(name: str, **more: Any) -> Machine:
    """A machine with one service of 70 pages."""
    return Machine(name, [Owner("nginx.service", program(name, 50, 20))], **more)


def sound(place: Path, count: int = 3) -> list[Path]:
    """So many surveys without a flaw."""
    return [write(place, plain(f"sound{at}")) for at in range(count)]


def look(place: Path, **more: Any) -> catalogue.Catalogue:
    """What counts at PLACE, and what does not."""
    return catalogue.read(places.open_place(str(place)), **more)


def left(found: catalogue.Catalogue) -> list[tuple[str, str]]:
    """Why something is left out."""
    return [(one.reason.value, one.why) for one in found.left_out]


def reasons(found: catalogue.Catalogue) -> list[str]:
    """The same in short."""
    return sorted(reason for reason, _ in left(found))


def changed(path: Path, change: Callable[[pa.Table], pa.Table], **settings: Any) -> None:
    """A file's rows, written anew after `change`, with metadata of any kind."""
    metadata = settings.pop("metadata", None)
    table = change(read_rows(path)).replace_schema_metadata(metadata)
    pq.write_table(table, path, compression="zstd", **settings)


def put(name: str, value: object) -> Callable[[pa.Table], pa.Table]:
    """Another column in the place of one, with one value."""

    def change(table: pa.Table) -> pa.Table:
        at = table.column_names.index(name)
        return table.set_column(at, name, pa.array([value] * len(table)))

    return change


def footer_of(path: Path) -> int:
    """Where its footer begins."""
    data = path.read_bytes()
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def spoil(path: Path, start: int, count: int = 50) -> None:
    """Makes no sense of some bytes."""
    data = bytearray(path.read_bytes())
    data[start : start + count] = b"\xff" * count
    path.write_bytes(data)


class _Page(HTMLParser):
    void = frozenset({"meta", "br", "wbr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        for name, value in attrs:
            at_home = value is None or value.startswith("#")
            assert at_home or name not in ("src", "href", "xlink:href"), value
            assert not name.startswith("on"), name
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.void:
            assert self.open.pop() == tag


def tags_of(page: str) -> set[str]:
    """The tags of a page that is whole, loads nothing and runs nothing."""
    parser = _Page()
    parser.feed(page)
    assert parser.open == []
    return parser.seen
