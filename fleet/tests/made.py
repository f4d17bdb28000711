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

import pyarrow as pa
import pyarrow.parquet as pq

from zmeld_fleet import catalogue, places, schema
from zmeld_fleet.writing import MAGIC, TEXTS, digest_of

KEY = b"the key of these tests"
KEY_ID = "0123456789abcdef"
NOON = datetime(2026, 3, 14, 12, 0, 0, tzinfo=timezone.utc)
GIB = 2**30
SIZES = {"lzo_rle": 1.5, "lz4": 1.4, "zstd": 2.2, "zword": 2.4}


def hash_of(content: object, key: bytes = KEY) -> tuple[int, int]:
    """The two halves of a keyed 128-bit hash."""
    digest = hashlib.blake2b(repr(content).encode(), key=key, digest_size=16).digest()
    return (
        int.from_bytes(digest[:8], "big", signed=True),
        int.from_bytes(digest[8:], "big", signed=True),
    )


def object_of(hashed: tuple[int, int], codec: str) -> int:
    """What a content takes: some more, some less, the same everywhere."""
    spread = 0.5 + (hashed[1] & 0xFFFF) / 0x10000
    return min(4096, round(4096 / SIZES[codec] * spread))


def class_of(hashed: tuple[int, int]) -> int:
    """Which eighth of a page it takes with zstd."""
    return max(1, -(-object_of(hashed, "zstd") * schema.CLASSES // 4096)) - 1


def size_rows(hashes: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """The rows about classes of sizes, of those with 32 contents or more."""
    rows = []
    for at in range(schema.CLASSES):
        own = [hashed for hashed in hashes if class_of(hashed) == at]
        row: dict[str, Any] = {"record": "size", "object_class": at, "count": len(own)}
        for codec in schema.CODECS:
            sizes = [object_of(hashed, codec) for hashed in own]
            row[f"bytes_{codec}"] = sum(sizes)
            row[f"squares_{codec}"] = sum(size * size for size in sizes)
        rows += [row] if len(own) >= 32 else []
    return rows


@dataclass
class Owner:
    """A service with its pages: how many of each content."""

    name: str
    pages: dict[object, int]
    kind: str = "service"
    zero: int = 0
    same: int = 0

    def sketch(self, k: int) -> tuple[int, list[tuple[tuple[int, int], int]]]:
        """theta, and the contents below it."""
        hashed = sorted((hash_of(content), count) for content, count in self.pages.items())
        if len(hashed) <= k:
            return schema.THETA_ALL, hashed
        theta = hashed[k][0][0]
        return theta, [one for one in hashed if one[0][0] < theta]


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


def owner_row(owner: Owner, theta: int, sketch: list[Any]) -> dict[str, Any]:
    """The row about an owner; estimates as docs/survey.md has them."""
    p = schema.sampled(theta)
    contents = sum(owner.pages.values())
    seen = len(sketch)
    distinct = seen / p
    half = 1.96 * (distinct * max(distinct - seen, 0) / max(seen - 1, 1)) ** 0.5
    row: dict[str, Any] = {
        "owner": owner.name,
        "kind": owner.kind,
        "name": owner.name.rpartition("/")[2],
        "processes": 1,
        "pages": contents + owner.zero + owner.same,
        "pages_zero": owner.zero,
        "pages_same": owner.same,
        "pages_distinct": distinct,
        "pages_distinct_low": distinct - half,
        "pages_distinct_high": distinct + half,
        "pages_swapped": 0,
        "theta": theta,
    }
    for codec in schema.CODECS:
        pool = float(
            sum(object_of(hash_of(content), codec) * n for content, n in owner.pages.items())
        )
        objects = [object_of(hashed, codec) for hashed, _ in sketch]
        melded = sum(objects) / p
        wide = 1.96 * (sum(size * size for size in objects) * (1 - p)) ** 0.5 / p
        row |= {f"pool_{codec}": pool}
        row |= {f"pool_{codec}_low": pool * 0.99, f"pool_{codec}_high": pool * 1.01}
        row |= {f"melded_{codec}": melded}
        row |= {f"melded_{codec}_low": melded - wide, f"melded_{codec}_high": melded + wide}
    return row


def table_of(machine: Machine) -> pa.Table:
    """All rows of a survey."""
    common = {
        "schema": schema.SCHEMA,
        "machine": machine.machine,
        "survey": machine.survey,
        "time": machine.time,
    }
    sketches = [(owner, *owner.sketch(machine.k)) for owner in machine.owners]
    first: list[dict[str, Any]] = [_facts(machine)]
    first += [
        {"record": "label", "label_name": name, "label_value": value}
        for name, value in machine.labels.items()
    ]
    first += [{"record": "owner", **owner_row(*sketch)} for sketch in sketches]
    contents = [
        {
            "record": "content",
            "owner": owner.name,
            "hash_high": hashed[0],
            "hash_low": hashed[1],
            "count": count,
            "object_class": class_of(hashed),
        }
        for owner, _, sketch in sketches
        for hashed, count in sketch
    ]
    contents.sort(key=lambda row: (row["hash_high"], row["hash_low"]))
    first += size_rows([hashed for _, _, sketch in sketches for hashed, _ in sketch])
    rows = [common | row for row in first + contents]
    if rows[0]["rows"] is None:
        rows[0]["rows"] = len(rows)
    return pa.Table.from_pylist(rows, schema=schema.ARROW)


def _facts(machine: Machine) -> dict[str, Any]:
    return {
        "record": "machine",
        "key_id": KEY_ID,
        "host": machine.name,
        "zmeld_version": "0.1.0",
        "kernel": "6.12.0",
        "architecture": "x86_64",
        "distribution": "Debian GNU/Linux 12 (bookworm)",
        "page_size": 4096,
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
    facts = sum(record != "content" for record in table["record"].to_pylist())
    settings = {"compression": "zstd", "use_dictionary": TEXTS, "store_schema": False}
    with open(path, "wb") as file, pq.ParquetWriter(file, schema.ARROW, **settings) as writer:
        writer.write_table(table.slice(0, facts))
        writer.write_table(table.slice(facts))
        file.flush()
        with pa.OSFile(str(path)) as written:
            length = written.size() - len(MAGIC)
            said = f"{digest_of(written, length):08x} {length}"
        writer.add_key_value_metadata({schema.DIGEST.decode(): said})
    return path


def program(name: str, own: int, shared: int = 0, library: str = "libc") -> dict[object, int]:
    """A program's pages: some of its own, some of a library that others load as well."""
    pages: dict[object, int] = {(name, at): 1 for at in range(own)}
    pages |= {(library, at): 1 for at in range(shared)}
    return pages


def read_rows(path: Path, **options: Any) -> pa.Table:
    """A file's rows without its metadata: its digest is of that file alone."""
    options.setdefault("partitioning", None)
    return pq.read_table(path, **options).replace_schema_metadata(None)


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


def of_rows(place: Path, whose: Machine, rows: list[dict[str, Any]]) -> Path:
    """A survey with these rows, which it counts right."""
    rows[0]["rows"] = len(rows)
    return write(place, whose, pa.Table.from_pylist(rows, schema=schema.ARROW))


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


def varint(value: int) -> bytes:
    """A number as Thrift writes it in a footer."""
    value, written = value << 1, b""
    while value > 127:
        written += bytes([value & 127 | 128])
        value >>= 7
    return written + bytes([value])


def spoil(path: Path, start: int, count: int = 50) -> None:
    """Makes no sense of some bytes."""
    data = bytearray(path.read_bytes())
    data[start : start + count] = b"\xff" * count
    path.write_bytes(data)


class _Page(HTMLParser):
    void = frozenset({"meta", "br", "img", "path", "use", "rect", "line", "wbr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        for name, value in attrs:
            at_home = value is None or value.startswith("#")
            assert at_home or name not in ("src", "href", "xlink:href"), value
            assert not name.startswith("on"), name

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.void:
            assert self.open.pop() == tag


def tags_of(page: str) -> set[str]:
    """The tags of a page that is whole, loads nothing and runs nothing."""
    parser = _Page()
    parser.feed(page)
    assert parser.open == []
    return parser.seen
