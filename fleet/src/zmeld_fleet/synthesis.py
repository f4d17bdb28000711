# SPDX-License-Identifier: GPL-2.0-or-later
"""Synthetic machines from real surveys, to see how reports grow.

A machine is made from a real one, its template, which is drawn by chance:
- each of its owners stays, or gives way to an owner of another template (one in five);
- of each owner a part of its contents stays, between a half and all, and pages likewise;
- of each content chance has decided once for all machines whether it is common. A common
  one keeps its hash, so that it is the same everywhere; any other gets a new one below
  theta. The share of common contents is the median of what two owners of one name
  share in two of the surveys; `COMMON` where there are no two;
- RAM is the template's, or half, a quarter, or twice that.
All of them have the label `zmeld.synthetic`, and reports say so.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zmeld_fleet import unions
from zmeld_fleet.catalogue import SYNTHETIC, Catalogue
from zmeld_fleet.packing import RangeWriter
from zmeld_fleet.schema import (
    COLUMNS,
    CONTENT,
    CONTENT_COLUMNS,
    FOLDER,
    HASH_MIN,
    LABEL,
    MACHINE,
    OWNER,
    PACKED_PREFIX,
    SCHEMA,
    SIZE,
)
from zmeld_fleet.writing import complete

COMMON = 0.3
OTHERS = 0.2
"""The chance that an owner comes from another template."""
BATCH = 25
"""Machines that are made at once."""
ROLES = ("web", "database", "batch", "build")


class SynthError(Exception):
    """There is nothing to make machines from."""


@dataclass
class Part:
    """An owner of a real survey with its contents."""

    row: dict[str, Any]
    high: np.ndarray
    low: np.ndarray
    count: np.ndarray
    object_class: np.ndarray


@dataclass
class Template:
    """A real survey."""

    facts: dict[str, Any]
    parts: list[Part]
    sizes: list[dict[str, Any]]
    """What contents of each class of sizes take."""


@dataclass(frozen=True)
class Made:
    """What was made."""

    path: Path
    machines: int
    rows: int
    common: float
    templates: int


def make(
    found: Catalogue, target: Path, machines: int, seed: int = 1, sketch: int | None = None
) -> Made:
    """So many machines in one packed file below `target`."""
    templates = [_template(survey.file.path, survey.survey) for survey in found.current]
    templates = [template for template in templates if template.parts]
    if not templates:
        raise SynthError(f"{found.place.shown}: no survey counts that machines could be made from")
    if sketch is not None:
        for template in templates:
            template.parts = [_cut(part, sketch) for part in template.parts]
            template.facts["sketch_size"] = sketch
    common = _common_share(found)
    now = datetime.now(timezone.utc).replace(hour=0, minute=0, second=1, microsecond=0)
    folder = target / FOLDER / f"date={now:%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{PACKED_PREFIX}synthetic-{machines}-{seed}.parquet"
    average = statistics.fmean(
        sum(len(part.high) for part in template.parts) for template in templates
    )
    writer = RangeWriter(int(machines * average))
    with tempfile.TemporaryDirectory(prefix=".synth-", dir=folder) as scratch:
        writer.open(Path(scratch))
        for table in _tables(templates, machines, seed, common, now):
            writer.add(table)
        rows = writer.write(path)
    return Made(path, machines, rows, common, len(templates))


def _template(path: str, survey: str) -> Template:
    with pq.ParquetFile(path) as file:
        table = file.read(columns=list(COLUMNS))
    table = table.filter(pc.equal(table["survey"], survey))
    facts = table.filter(pc.equal(table["record"], MACHINE)).to_pylist()[0]
    owners = table.filter(pc.equal(table["record"], OWNER)).to_pylist()
    contents = table.filter(pc.equal(table["record"], CONTENT))
    sizes = table.filter(pc.equal(table["record"], SIZE)).to_pylist()
    return Template(facts, [_part(row, contents) for row in owners if row["pages"]], sizes)


def _part(row: dict[str, Any], contents: pa.Table) -> Part:
    own = contents.filter(pc.equal(contents["owner"], row["owner"]))
    return Part(row, *(own[name].to_numpy() for name in CONTENT_COLUMNS))


def _cut(part: Part, k: int) -> Part:
    """The part with a smaller sketch."""
    if len(part.high) <= k:
        return part
    theta = int(np.sort(part.high)[k])
    below = part.high < theta
    kept = (part.high, part.low, part.count, part.object_class)
    return Part(part.row | {"theta": theta}, *(column[below] for column in kept))


def _common_share(found: Catalogue) -> float:
    """What two owners of one name in two surveys share of the smaller one's contents."""
    sketches = unions.read(found.paths(found.current))
    shares = []
    for at, one in enumerate(sketches):
        for other in sketches[at + 1 :]:
            if one.name == other.name and one.survey != other.survey:
                fewer = min(unions.distinct([one]).value, unions.distinct([other]).value)
                if fewer >= 1.0:
                    shares.append(unions.shared(one, other).value / fewer)
    return statistics.median(shares) if shares else COMMON


def _tables(
    templates: list[Template], machines: int, seed: int, common: float, now: datetime
) -> Iterator[pa.Table]:
    chance = np.random.default_rng(seed)
    for first in range(0, machines, BATCH):
        facts: list[dict[str, Any]] = []
        contents: list[_Contents] = []
        for at in range(first, min(first + BATCH, machines)):
            rows, own = _machine(templates, at, chance, common, now)
            facts += rows
            contents += own
        columns = pa.Table.from_pylist(facts, schema=pa.schema(list(COLUMNS.items())))
        yield columns
        yield complete(_content_table(contents, now))


@dataclass
class _Contents:
    machine: str
    survey: str
    owner: str
    columns: dict[str, np.ndarray]


def _machine(
    templates: list[Template],
    at: int,
    chance: np.random.Generator,
    common: float,
    now: datetime,
) -> tuple[list[dict[str, Any]], list[_Contents]]:
    template = templates[int(chance.integers(len(templates)))]
    machine, survey = chance.bytes(16).hex(), chance.bytes(16).hex()
    shared = {"schema": SCHEMA, "machine": machine, "survey": survey, "time": now}
    parts: dict[str, Part] = {}
    for part in template.parts:
        if chance.random() < OTHERS:
            other = templates[int(chance.integers(len(templates)))]
            part = other.parts[int(chance.integers(len(other.parts)))]
        parts[part.row["owner"]] = part
    rows = []
    contents = []
    for part in parts.values():
        row, columns = _owner(part, chance, common)
        rows.append({**shared, "record": OWNER, **row})
        contents.append(_Contents(machine, survey, row["owner"], columns))
    count = sum(len(own.columns["hash_high"]) for own in contents)
    labels = {SYNTHETIC: "yes", "role": ROLES[int(chance.integers(len(ROLES)))]}
    facts = {name: template.facts[name] for name in template.facts} | shared
    facts |= {"record": MACHINE, "host": f"synthetic-{at}", "uptime_seconds": 1.0}
    facts["ram_bytes"] = int(facts["ram_bytes"] * 2.0 ** int(chance.integers(-2, 2)))
    facts["rows"] = 1 + len(labels) + len(rows) + len(template.sizes) + count
    named = [
        {**shared, "record": LABEL, "label_name": name, "label_value": value}
        for name, value in labels.items()
    ]
    sizes = [row | shared for row in template.sizes]
    return [facts, *named, *rows, *sizes], contents


def _owner(
    part: Part, chance: np.random.Generator, common: float
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The owner with a part of its contents, some of them with new hashes."""
    stays = float(chance.uniform(0.5, 1.0))
    kept = chance.random(len(part.high)) < stays
    high, low = part.high[kept].copy(), part.low[kept].copy()
    private = (low & 0xFFFF) >= int(common * 0x10000)
    below = int(part.row["theta"])
    new = int(private.sum())
    high[private] = chance.integers(HASH_MIN, below, size=new, dtype=np.int64)
    low[private] = chance.integers(HASH_MIN, 2**63 - 1, size=new, dtype=np.int64)
    columns = {"hash_high": high, "hash_low": low, "count": part.count[kept]}
    columns["object_class"] = part.object_class[kept]
    whole = ("theta", "processes")
    left = ("schema", "record", "machine", "survey", "time")
    row = {}
    for name, value in part.row.items():
        if name in left:
            continue
        if name in whole or value is None or isinstance(value, str):
            row[name] = value
        else:
            row[name] = type(value)(value * stays)
    return row, columns


def _content_table(parts: list[_Contents], now: datetime) -> pa.Table:
    lengths = [len(part.columns["hash_high"]) for part in parts]
    indices = pa.array(np.repeat(np.arange(len(parts), dtype=np.int32), lengths))

    def text(values: list[str]) -> pa.Array:
        return pa.array(values, pa.string()).take(indices)

    total = sum(lengths)
    columns: dict[str, Any] = {
        "schema": pa.repeat(SCHEMA, total),
        "record": pa.repeat(CONTENT, total),
        "machine": text([part.machine for part in parts]),
        "survey": text([part.survey for part in parts]),
        "time": pa.repeat(pa.scalar(now, COLUMNS["time"]), total),
        "owner": text([part.owner for part in parts]),
    }
    for name in parts[0].columns:
        columns[name] = np.concatenate([part.columns[name] for part in parts])
    return pa.table(columns)
