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

import itertools
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

from zmeld_fleet import schema
from zmeld_fleet.catalogue import SYNTHETIC, Catalogue, LeftOut, Survey, look
from zmeld_fleet.limited import limited
from zmeld_fleet.packing import unite
from zmeld_fleet.places import Place, StoredFile
from zmeld_fleet.validity import RAM_MAX, Reason, check_owners, rows_about
from zmeld_fleet.words import FleetError
from zmeld_fleet.writing import complete, sync_folder

COMMON = 0.3
OTHERS = 0.2
"""The chance that an owner comes from another template."""
BATCH = 25
"""Machines that are written at once."""
_COUNTS = ("pages", "pages_zero", "pages_same")
ROLES = ("web", "database", "batch", "build")


@dataclass
class Part:
    """An owner of a real survey with its contents."""

    row: dict[str, Any]
    contents: pa.Table

    @property
    def distinct(self) -> float:
        """How many contents it has."""
        return len(self.contents) / schema.sampled(self.row["theta"])

    def below(self, theta: int) -> Part:
        """The same with a smaller sketch."""
        kept = self.contents.filter(pc.less(self.contents["hash_high"], theta))
        return Part(self.row | {"theta": theta}, kept)


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
    templates = [template for one in found.current if (template := _read(found, one)).parts]
    if not templates:
        raise FleetError(f"{found.place.shown}: no survey counts that machines could be made from")
    common = _common_share(templates)
    if sketch is not None:
        for template in templates:
            template.parts = [_cut(part, sketch) for part in template.parts]
            template.facts["sketch_size"] = sketch
    now = datetime.now(timezone.utc).replace(hour=0, minute=0, second=1, microsecond=0)
    folder = target / schema.FOLDER / f"date={now:%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{schema.PACKED_PREFIX}synthetic-{machines}-{seed}.parquet"
    with tempfile.TemporaryDirectory(prefix=".synth-", dir=folder) as scratch:
        unsorted = f"{scratch}/rows.parquet"
        surveys: list[str] = []
        with pq.ParquetWriter(unsorted, schema.ARROW, compression="zstd") as writer:
            for made in _batched(_machines(templates, machines, seed, common, now)):
                writer.write_table(pa.concat_tables(made))
                surveys += [table["survey"][0].as_py() for table in made]
        whole = Path(scratch) / path.name
        rows = unite([(survey, unsorted) for survey in surveys], whole)
        day, size = f"{now:%Y-%m-%d}", whole.stat().st_size
        looked = look(found.place, StoredFile(str(whole), path.name, day, size, None))
        if isinstance(looked, LeftOut):
            raise FleetError(f"{path.name}: what was made would not count: {looked.why}")
        whole.rename(path)
        sync_folder(folder)
    return Made(path, machines, rows, common, len(templates))


def _batched(tables: Iterator[pa.Table]) -> Iterator[list[pa.Table]]:
    return iter(lambda: list(itertools.islice(tables, BATCH)), [])


def _read(found: Catalogue, survey: Survey) -> Template:
    try:
        return limited(_template, survey.file.size, found.place, survey)
    except Exception as error:
        found.leave(survey, Reason.VALUES, f"no machine is made from it: {error}")
        return Template({}, [], [])


def _template(place: Place, survey: Survey) -> Template:
    with place.open(survey.file.path) as file:
        wanted = pc.equal(pc.field("survey"), survey.survey)
        table = pq.read_table(file, columns=list(schema.COLUMNS), filters=wanted)
    facts, owners, sizes = (
        rows_about(table, record).to_pylist()
        for record in (schema.MACHINE, schema.OWNER, schema.SIZE)
    )
    # An owner that is only just believed would not be with fewer pages and contents.
    halves = [row | {name: row[name] // 2 for name in _COUNTS} for row in owners]
    facts_of = rows_about(table, schema.MACHINE)
    check_owners(pa.Table.from_pylist(halves, schema=schema.ARROW), facts_of)
    contents = rows_about(table, schema.CONTENT).select(("owner", *schema.CONTENT_COLUMNS))
    contents = contents.drop_null()
    parts = []
    for row in owners:
        own = contents.filter(pc.equal(contents["owner"], row["owner"]))
        if row["pages"]:
            parts.append(Part(row, own.select(list(schema.CONTENT_COLUMNS))))
    return Template(facts[0], parts, sizes)


def _cut(part: Part, k: int) -> Part:
    hashes = part.contents["hash_high"].to_numpy()
    return part if len(hashes) <= k else part.below(int(np.sort(hashes)[k]))


def _common_share(templates: list[Template]) -> float:
    """What an owner and the one of its name before it share of the smaller one's contents."""
    shares = []
    last: dict[str, Part] = {}
    for template in templates:
        named = {one.row["name"]: one for one in template.parts if one.distinct >= 1.0}
        for both in ((last[name], named[name]) for name in named if name in last):
            theta = min(part.row["theta"] for part in both)
            hashes = [part.below(theta).contents["hash_high"] for part in both]
            fewer = schema.sampled(theta) * min(part.distinct for part in both)
            shares.append(len(np.intersect1d(*hashes)) / fewer)
        last |= named
    return statistics.median(shares) if shares else COMMON


def _machines(
    templates: list[Template], machines: int, seed: int, common: float, now: datetime
) -> Iterator[pa.Table]:
    chance = np.random.default_rng(seed)
    for at in range(machines):
        rows, contents = _machine(templates, at, chance, common, now)
        facts = pa.Table.from_pylist(rows, schema=schema.ARROW)
        yield pa.concat_tables([facts, complete(contents)])


def _machine(
    templates: list[Template],
    at: int,
    chance: np.random.Generator,
    common: float,
    now: datetime,
) -> tuple[list[dict[str, Any]], pa.Table]:
    template = templates[int(chance.integers(len(templates)))]
    machine, survey = chance.bytes(16).hex(), chance.bytes(16).hex()
    shared = {"schema": schema.SCHEMA, "machine": machine, "survey": survey, "time": now}
    parts: dict[str, Part] = {}
    for part in template.parts:
        if chance.random() < OTHERS:
            other = templates[int(chance.integers(len(templates)))]
            drawn = other.parts[int(chance.integers(len(other.parts)))]
            if other.facts["sketch_size"] == template.facts["sketch_size"]:
                part = drawn
        parts[part.row["owner"]] = _changed(part, chance, common)
    owners = [part.row | shared for part in parts.values()]
    contents = pa.concat_tables(
        part.contents.append_column("owner", pa.repeat(owner, len(part.contents)))
        for owner, part in parts.items()
    )
    for name, value in (shared | {"record": schema.CONTENT}).items():
        constant = pa.repeat(pa.scalar(value, schema.COLUMNS[name]), len(contents))
        contents = contents.append_column(name, constant)
    labels = [
        {**shared, "record": schema.LABEL, "label_name": name, "label_value": value}
        for name, value in (
            (SYNTHETIC, "yes"),
            ("role", ROLES[int(chance.integers(len(ROLES)))]),
        )
    ]
    facts = template.facts | shared | {"host": f"synthetic-{at}", "uptime_seconds": 1.0}
    held = sum(row["pages"] for row in owners) * facts["page_size"]
    ram = int((facts["ram_bytes"] or held) * 2.0 ** int(chance.integers(-2, 2)))
    facts["ram_bytes"] = min(max(ram, held), RAM_MAX)
    rows = [facts, *labels, *owners]
    rows += [_fewer(template, row, len(contents)) | shared for row in template.sizes]
    facts["rows"] = len(rows) + len(contents)
    return rows, contents


def _fewer(template: Template, row: dict[str, Any], contents: int) -> dict[str, Any]:
    """What a class takes, of no more contents than there are."""
    told = sum(size["count"] for size in template.sizes)
    count = max(row["count"] * min(contents, told) // told, 1)
    names = ("count", *schema.SIZE_COLUMNS)
    return row | {name: row[name] * count // row["count"] for name in names}


def _changed(part: Part, chance: np.random.Generator, common: float) -> Part:
    """The owner with a part of its contents, some of them with new hashes."""
    stays = float(chance.uniform(0.5, 1.0))
    contents = part.contents.filter(pa.array(chance.random(len(part.contents)) < stays))
    columns = {name: contents[name].to_numpy().copy() for name in contents.column_names}
    private = (columns["hash_low"] & 0xFFFF) >= int(common * 0x10000)
    for name, end in (("hash_high", int(part.row["theta"])), ("hash_low", 2**63 - 1)):
        new = chance.integers(schema.HASH_MIN, end, size=int(private.sum()), dtype=np.int64)
        columns[name][private] = new
    whole = ("theta", "processes")
    row = {
        name: type(value)(value * stays)
        if isinstance(value, (int, float)) and name not in whole
        else value
        for name, value in part.row.items()
    }
    return Part(row, pa.table(columns))
