# SPDX-License-Identifier: GPL-2.0-or-later
"""Which surveys count, and why the others do not.

Every file is looked at before an engine reads it: its footer, its rows about machines,
and of contents all but hashes. What is wrong with it has a name (`Reason`), is left out, and
is counted.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zmeld_fleet import schema, validity
from zmeld_fleet.limited import each, limited
from zmeld_fleet.places import Place, StoredFile
from zmeld_fleet.validity import FlawError, Reason
from zmeld_fleet.words import inert, listed, plural
from zmeld_fleet.writing import MAGIC, TEXTS, digest_of

CLOCK_TOLERANCE = timedelta(minutes=15)
"""A survey may be so much newer than its file before its clock is doubted."""
BOOT_TOLERANCE_S = 300.0
"""Two surveys of one boot may disagree by so much on when that was."""
SKETCH_FACTOR = 4
ENGINE_MIB = 512
"""What DuckDB may use of memory before it writes to disk."""
UTC = ("UTC", "Etc/UTC", "+00:00")
"""What writers call it."""
SYNTHETIC = "zmeld.synthetic"
"""The label of a machine that was made up."""


Flaw = tuple[Reason, str] | None


@dataclass(frozen=True)
class LeftOut:
    """A file, or one survey of it, that does not count."""

    file: str
    survey: str | None
    reason: Reason
    why: str


@dataclass(frozen=True)
class Survey:
    """One machine at one time."""

    survey: str
    machine: str
    time: datetime
    file: StoredFile
    facts: dict[str, Any]
    labels: dict[str, str]
    doubled: tuple[str, ...] = ()
    """Labels that it has more than once."""

    @property
    def date(self) -> str:
        """The day, in UTC."""
        return self.time.strftime("%Y-%m-%d")

    @property
    def booted(self) -> float | None:
        """When the machine started by its own clock, in seconds since 1970."""
        uptime = self.facts.get("uptime_seconds")
        return None if uptime is None else self.time.timestamp() - uptime


@dataclass
class Catalogue:
    """What there is, what counts, and what is left out."""

    place: Place
    files_seen: int = 0
    surveys_seen: int = 0
    key_id: str | None = None
    page_size: int = 4096
    surveys: list[Survey] = field(default_factory=list)
    """What counts: one of a machine and a day."""
    left_out: list[LeftOut] = field(default_factory=list)
    held: dict[str, set[str]] = field(default_factory=dict)
    """The surveys that stand in each file, whether they count or not."""

    @property
    def current(self) -> list[Survey]:
        """The latest of each machine."""
        latest = {survey.machine: survey for survey in sorted(self.surveys, key=_age)}
        return [latest[machine] for machine in sorted(latest)]

    def leave(self, survey: Survey, reason: Reason, why: str) -> None:
        """A survey does not count."""
        path = inert(survey.file.path)
        self.left_out.append(LeftOut(path, inert(survey.survey), reason, inert(why)))

    def sift(self, surveys: list[Survey], flaw_of: Callable[[Survey], Flaw]) -> list[Survey]:
        """Those without a flaw; the others are left out."""
        kept = []
        for survey in surveys:
            flaw = flaw_of(survey)
            if flaw is None:
                kept.append(survey)
            else:
                self.leave(survey, *flaw)
        return kept

    def ambiguous(self, paths: list[str]) -> dict[str, list[str]]:
        """Of these files those with a survey that another has, too: which to take from each."""
        holders = Counter(survey for path in paths for survey in self.held[path])
        counted: dict[str, list[str]] = {path: [] for path in paths}
        for survey in self.surveys:
            if survey.file.path in counted:
                counted[survey.file.path].append(survey.survey)
        return {
            path: counted[path]
            for path in paths
            if any(holders[survey] > 1 for survey in self.held[path])
        }


def _age(survey: Survey) -> tuple[datetime, str]:
    return survey.time, survey.survey


def read(
    place: Place,
    key_id: str | None = None,
    now: datetime | None = None,
    since: int | None = None,
) -> Catalogue:
    """Looks at every file of PLACE, or of its last `since` days."""
    stored, refused = place.listed(first_day(since, now))
    catalogue = Catalogue(place, files_seen=len(stored))
    catalogue.left_out += [
        LeftOut(inert(path), None, Reason.UNREADABLE, f"its files cannot be listed: {why}")
        for path, why in refused.items()
    ]
    found: list[Survey] = []
    for surveys in each(lambda file: look(place, file), stored):
        if isinstance(surveys, LeftOut):
            catalogue.left_out.append(surveys)
            continue
        catalogue.held[surveys[0].file.path] = {survey.survey for survey in surveys}
        found.extend(surveys)
    catalogue.surveys_seen = len(found)
    now = now or datetime.now(timezone.utc)
    found = catalogue.sift(_once(catalogue, found), _incomplete)
    catalogue.key_id = key_id or _usual(survey.facts["key_id"] for survey in found)
    why = "its key is {0}, counted are those with {1}"
    keyed = catalogue.sift(found, _all_with("key_id", catalogue.key_id, Reason.KEY, why))
    catalogue.page_size = page = _usual(survey.facts["page_size"] for survey in keyed) or 4096
    why = "its pages have {0} bytes, counted are those with {1}"
    found = catalogue.sift(keyed, _all_with("page_size", page, Reason.PAGE_SIZE, why))
    found = catalogue.sift(found, _alike(found))
    found = catalogue.sift(found, lambda survey: _clock_flaw(survey, now))
    found = _one_a_day(catalogue, _steady(catalogue, found))
    found = catalogue.sift(found, _countable(found))
    catalogue.surveys = sorted(found, key=lambda s: (s.date, s.machine))
    catalogue.left_out.sort(key=lambda left: (left.file, left.survey or "", left.reason.value))
    return catalogue


def first_day(days: int | None, now: datetime | None = None) -> str | None:
    """The first of so many days that end today, in UTC."""
    if days is None:
        return None
    today = (now or datetime.now(timezone.utc)).date()
    return max(today - timedelta(days=days - 1), date.min + timedelta(days=1)).isoformat()


def look(place: Place, stored: StoredFile) -> list[Survey] | LeftOut:
    """One file: the surveys in it, or why it cannot be used."""
    if not stored.is_named_well:
        why = "names are date=YYYY-MM-DD/*.parquet of letters, digits, dots, - and _"
        return LeftOut(inert(stored.path), None, Reason.NAME, why)
    try:
        opened = place.open(stored.path)
    except Exception as error:  # An object store's refusals have no number.
        return _flawed(stored, error, Reason.UNREADABLE)
    try:
        with opened as file:
            _check_magic(file, stored.size)
        return limited(_look, stored.size, place, stored)
    except Exception as error:  # Whatever is wrong with it, the other files count.
        return _flawed(stored, error)


def _look(place: Place, stored: StoredFile) -> list[Survey]:
    with place.open(stored.path) as file:
        parquet = _opened(file)
        _check_version(parquet)
        _check_columns(parquet.schema_arrow)
        _check_digest(parquet.metadata, file)
        surveys = _surveys(stored, _facts(parquet, stored.size))
        said = sum(survey.facts["rows"] or 0 for survey in surveys)
        groups = range(parquet.num_row_groups)
        rows = sum(parquet.metadata.row_group(at).num_rows for at in groups)
        if said != rows:
            raise FlawError(f"{plural(rows, 'row', 'rows')}, and it says {said}", Reason.ROWS)
    return surveys


def verify(place: Place, stored: StoredFile) -> LeftOut | None:
    """Reads all of a file: for when an engine could not."""
    try:
        limited(_verify, stored.size, place, stored)
    except Exception as error:
        return _flawed(stored, error)
    return None


def _verify(place: Place, stored: StoredFile) -> None:
    with place.open(stored.path) as file:
        parquet = pq.ParquetFile(file)
        for at in range(parquet.num_row_groups):
            validity.check_size(parquet.metadata.row_group(at), validity.CONTENT_ROWS_MAX)
            parquet.read_row_group(at, use_threads=False).validate(full=True)
    with place.on_disk([stored.path]) as there, duck(threads=1) as engine:
        rows = engine.read_parquet(there, hive_partitioning=False)
        rows.aggregate("max(hash(COLUMNS(*)))").fetchall()


def duck(**settings: Any) -> duckdb.DuckDBPyConnection:
    """DuckDB, which no file makes load or convert anything beyond Parquet."""
    settings |= {"memory_limit": f"{ENGINE_MIB}MiB", "preserve_insertion_order": False}
    engine = duckdb.connect(config=settings)
    for name in ("enable_geoparquet_conversion", "autoinstall_known_extensions"):
        engine.execute(f"SET {name} = false")
    return engine


def _flawed(stored: StoredFile, error: Exception, reason: Reason = Reason.DAMAGED) -> LeftOut:
    """What the system refuses has a number; what pyarrow cannot make sense of has none."""
    why = str(error)
    if isinstance(error, FlawError):
        reason = error.reason
    elif isinstance(error, MemoryError):
        reason = Reason.VALUES
    elif isinstance(error, OSError) and error.errno is not None:
        # Without the name of the file, which stands before it.
        hint = "; root or its owner may read it" if isinstance(error, PermissionError) else ""
        reason, why = Reason.UNREADABLE, f"{os.strerror(error.errno)}{hint}"
    return LeftOut(inert(stored.path), None, reason, inert(why))


def _opened(file: pa.NativeFile) -> pq.ParquetFile:
    """With texts as dictionaries: one that stands in many rows takes its memory once."""
    metadata = pq.read_metadata(file)
    there = {
        leaf.path
        for leaf in (metadata.schema.column(at) for at in range(metadata.num_columns))
        if leaf.physical_type == "BYTE_ARRAY"
    }
    texts = [name for name in TEXTS if name in there]
    return pq.ParquetFile(file, metadata=metadata, read_dictionary=texts)


def _check_magic(file: pa.NativeFile, most: int) -> None:
    size = file.size()
    if size > most:
        raise FlawError(f"it has {size} bytes, and {most} on the disk or when it was found")
    if size < 12:
        said = plural(size, "byte is", "bytes are")
        raise FlawError(f"{said} no Parquet file", Reason.TRUNCATED)
    head = file.read_at(4, 0)
    tail = file.read_at(4, size - 4)
    if head == MAGIC and tail != MAGIC:
        raise FlawError("it begins as Parquet and has no end", Reason.TRUNCATED)
    if head != MAGIC:
        raise FlawError("it does not begin as Parquet does", Reason.NOT_PARQUET)


def _check_digest(metadata: pq.FileMetaData, file: pa.NativeFile) -> None:
    """Whether the columns are as they were written, where the writer left a digest.

    It is not against forgery.
    """
    said = (metadata.metadata or {}).get(schema.DIGEST)
    if said is None:
        return
    parts = re.fullmatch(rb"([0-9a-f]{8}) ([0-9]{1,18})", said)
    if parts is None:
        raise FlawError(f"its digest is no digest: {inert(said[:40])}", Reason.DIGEST)
    found = digest_of(file, int(parts[2]))
    if found != int(parts[1], 16):
        why = f"its columns have the digest {found:08x}, not {parts[1].decode()}"
        raise FlawError(why, Reason.DIGEST)


def _check_version(parquet: pq.ParquetFile) -> None:
    """Another version may have other columns: so what it says it is comes first."""
    there = parquet.schema_arrow
    if "schema" not in there.names:
        raise FlawError(f"it has no column `schema`; read is {schema.SCHEMA}", Reason.VERSION)
    if there.names.count("schema") > 1 or not _fits(there.field("schema").type, pa.string()):
        raise FlawError(f"its column `schema` is no text; read is {schema.SCHEMA}", Reason.VERSION)
    if parquet.metadata.num_row_groups and not all(name in there.names for name in schema.COLUMNS):
        validity.check_size(parquet.metadata.row_group(0), validity.CONTENT_ROWS_MAX)
        _check_schema(parquet.read_row_group(0, columns=["schema"], use_threads=False))


def _check_schema(table: pa.Table) -> None:
    validity.check_values(table.select(["schema"]))
    foreign = {*pc.unique(table["schema"].cast(pa.string())).to_pylist()} - {schema.SCHEMA}
    if foreign:
        raise FlawError(
            f"its schema is {listed(foreign)}, read is {schema.SCHEMA}", Reason.VERSION
        )


def _check_columns(there: pa.Schema) -> None:
    lowered = Counter(name.lower() for name in there.names)
    alike = [name for name in there.names if lowered[name.lower()] > 1 or not name]
    missing = [name for name in schema.COLUMNS if name not in there.names]
    why = None
    if alike:
        # Engines that do not tell capitals from others would read one for the other.
        why = f"columns whose names stand for others: {listed(map(repr, alike), 5)}"
    elif missing:
        why = f"no column {', '.join(missing[:5])}"
    elif wrong := [
        n for n, kind in schema.COLUMNS.items() if not _fits(there.field(n).type, kind)
    ]:
        why = f"another type: {', '.join(wrong[:5])}"
    if why is not None:
        raise FlawError(why, Reason.COLUMNS)


def _fits(there: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_dictionary(there):
        there = there.value_type
    if pa.types.is_timestamp(wanted):
        return pa.types.is_timestamp(there) and there.unit == "us" and there.tz in UTC
    if pa.types.is_string(wanted):
        return pa.types.is_string(there) or pa.types.is_large_string(there)
    return bool(there == wanted)


def _facts(parquet: pq.ParquetFile, size: int) -> pa.Table:
    """The rows about machines, labels, owners and sizes, if all rows can be true."""
    metadata = parquet.metadata
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    validity.check_count("rows", rows, validity.ROW_BYTES, size)
    names = [name for name in schema.COLUMNS if not name.startswith("hash_")]
    found = [parquet.schema_arrow.empty_table().select(names)]
    held: set[str | None] = set()
    for at, group in enumerate(groups):
        validity.check_size(group, validity.CONTENT_ROWS_MAX)
        few = ["schema", "record", "survey", "count", "object_class"]
        table = parquet.read_row_group(at, columns=few, use_threads=False)
        _check_schema(table)
        records = table["record"].cast(pa.string())
        if strange := {*pc.unique(records).to_pylist()} - set(schema.RECORDS) - {None}:
            raise FlawError(f"rows of an unknown record: {listed(strange, 5)}")
        is_content = pc.equal(records, schema.CONTENT)
        held |= validity.surveys_of_contents(table.filter(is_content))
        if not pc.all(is_content, min_count=0).as_py():
            validity.check_size(group, validity.FACT_ROWS_MAX)
            table = parquet.read_row_group(at, columns=names, use_threads=False)
            table = table.filter(pc.invert(is_content))
            validity.check_values(table)
            found.append(table)
            facts = sum(map(len, found))
            validity.check_count("rows without contents", facts, validity.FACT_BYTES, size)
    about = pa.concat_tables(found)
    machines = validity.rows_about(about, schema.MACHINE)
    surveys = machines["survey"].to_pylist()
    validity.check_machines(surveys, size)
    validity.check_labels(validity.rows_about(about, schema.LABEL), len(surveys))
    if surveys:
        owners = validity.rows_about(about, schema.OWNER)
        validity.check_owners(owners, machines)
        validity.check_sizes(validity.rows_about(about, schema.SIZE), owners, machines)
        if held - set(surveys):
            raise FlawError("contents are of a survey without a row about its machine")
    return about


def _surveys(stored: StoredFile, facts: pa.Table) -> list[Survey]:
    labels: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in validity.rows_about(facts, schema.LABEL).to_pylist():
        named = sys.intern(row["label_name"]), sys.intern(row["label_value"])
        labels[row["survey"]].append(named)
    found = []
    for row in validity.rows_about(facts, schema.MACHINE).to_pylist():
        name, own = row["survey"], labels[row["survey"]]
        if None in (row["rows"], row["key_id"], row["page_size"]):
            raise FlawError(f"survey {name} lacks rows, key or size of pages")
        # A text that stands in many rows is one, and is handed over once.
        facts_of = ((key, row[key]) for key in schema.MACHINE_COLUMNS)
        said = {key: sys.intern(one) if isinstance(one, str) else one for key, one in facts_of}
        counts = Counter(label for label, _ in own)
        doubled = tuple(sorted(label for label, count in counts.items() if count > 1))
        found.append(Survey(name, row["machine"], row["time"], stored, said, dict(own), doubled))
    if not found:
        raise FlawError("no row says which machine it is")
    return found


_SAID = ("machine", "time", "facts", "labels")


def _once(catalogue: Catalogue, surveys: list[Survey]) -> list[Survey]:
    """A survey counts once, from the first file that it is in."""
    kept: dict[str, Survey] = {}
    claimed: set[str] = set()
    for survey in sorted(surveys, key=lambda survey: survey.file.path):
        first = kept.setdefault(survey.survey, survey)
        if first is survey:
            continue
        if all(getattr(survey, name) == getattr(first, name) for name in _SAID):
            why = f"the same survey is in {first.file.name}"
        else:
            claimed.add(survey.survey)
            why = f"{first.file.name} says something else of the same survey: neither counts"
        catalogue.leave(survey, Reason.TWICE, why)
    for name in sorted(claimed):
        why = "another file says something else of the same survey: neither counts"
        catalogue.leave(kept.pop(name), Reason.TWICE, why)
    return list(kept.values())


def _incomplete(survey: Survey) -> Flaw:
    if survey.doubled:
        named = listed(survey.doubled, 5)
        why = f"more than one value for the label {named}: which is meant is not clear"
        return Reason.VALUES, why
    if survey.facts["interrupted"]:
        return Reason.INTERRUPTED, "it was stopped before everything was read"
    if survey.facts["selection"] is not None:
        return Reason.SELECTION, f"it is of some processes only: {survey.facts['selection']}"
    if survey.facts["processes_refused"]:
        refused = plural(survey.facts["processes_refused"], "process", "processes")
        return Reason.PARTIAL, f"{refused} might not be read; root may"
    return None


def _usual(values: Iterable[Any]) -> Any:
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value)) if counts else None


def _all_with(fact: str, wanted: Any, reason: Reason, why: str) -> Callable[[Survey], Flaw]:
    def flaw(survey: Survey) -> Flaw:
        said = survey.facts[fact]
        return None if said == wanted else (reason, why.format(said, wanted))

    return flaw


def _alike(surveys: list[Survey]) -> Callable[[Survey], Flaw]:
    """One survey with a sketch far smaller would lower the bound of all."""
    usual = _usual(survey.facts["sketch_size"] or 0 for survey in surveys) or 0

    def flaw(survey: Survey) -> Flaw:
        size = survey.facts["sketch_size"] or 0
        if size * SKETCH_FACTOR >= usual:
            return None
        has = plural(size, "content", "contents")
        return Reason.SKETCH, f"its sketches have {has}, most have {usual}: all would be cut to it"

    return flaw


def _clock_flaw(survey: Survey, now: datetime) -> Flaw:
    written, uptime = survey.file.modified, survey.facts["uptime_seconds"]
    why = None
    if survey.date != survey.file.date:
        why = f"it was made on {survey.date} and lies under date={survey.file.date}"
    elif uptime is not None and uptime < 0.0:
        why = "the machine says that it has not started yet"
    elif survey.time > now + CLOCK_TOLERANCE:
        why = f"its time, {survey.time:%Y-%m-%dT%H:%M:%SZ}, is yet to come"
    elif written is not None and survey.time > written + CLOCK_TOLERANCE:
        why = f"its time is after {written:%Y-%m-%dT%H:%M:%SZ}, when the file was written"
    return None if why is None else (Reason.CLOCK, why)


def _steady(catalogue: Catalogue, surveys: list[Survey]) -> list[Survey]:
    """Of each machine those whose uptime fits with the next survey's clock.

    Between two surveys a machine ran on, or started anew after the first. If it says
    neither, its clock was set in between, and the older time is not believed.
    """
    next_of: dict[str, Survey] = {}
    kept = []
    for survey in sorted(surveys, key=_age, reverse=True):
        newer = next_of.get(survey.machine)
        if newer is None or _fits_before(survey, newer):
            next_of[survey.machine] = survey
            kept.append(survey)
        else:
            why = "its uptime does not fit with that of the machine's next survey: a clock was set"
            _leave_for(catalogue, survey, newer, Reason.CLOCK, why)
    return kept


def _fits_before(older: Survey, newer: Survey) -> bool:
    if older.booted is None or newer.booted is None:
        return True
    ran_on = abs(newer.booted - older.booted) <= BOOT_TOLERANCE_S
    return ran_on or newer.booted >= older.time.timestamp() - BOOT_TOLERANCE_S


def _one_a_day(catalogue: Catalogue, surveys: list[Survey]) -> list[Survey]:
    kept: dict[tuple[str, str], Survey] = {}
    for survey in sorted(surveys, key=_age, reverse=True):
        later = kept.setdefault((survey.machine, survey.date), survey)
        if later is not survey:
            why = f"the machine was surveyed again that day, at {later.time:%H:%M:%S}"
            _leave_for(catalogue, survey, later, Reason.SUPERSEDED, why)
    return list(kept.values())


def _leave_for(
    catalogue: Catalogue, survey: Survey, other: Survey, reason: Reason, why: str
) -> None:
    """Left out because of another one of that machine, if it is that machine."""
    one, two = survey.facts["host"], other.facts["host"]
    if one != two:
        reason = Reason.SAME_ID
        why = f"hosts {one} and {two} have one machine id: give a clone its own /etc/machine-id"
    catalogue.leave(survey, reason, why)


def _countable(surveys: list[Survey]) -> Callable[[Survey], Flaw]:
    """Whether an engine can hold the sums: of the smallest machines, as many as fit."""
    sizes: dict[str, int] = defaultdict(int)
    for survey in surveys:
        ram = survey.facts["ram_bytes"] or validity.RAM_UNKNOWN
        sizes[survey.machine] = max(sizes[survey.machine], ram)
    order = sorted(sizes, key=lambda machine: (sizes[machine], machine))
    sums = itertools.accumulate(sizes[machine] for machine in order)
    fitting = {
        one for one, sum_of in zip(order, sums, strict=True) if sum_of <= validity.FLEET_RAM_MAX
    }
    why = f"with it all machines would have more than {validity.FLEET_RAM_MAX >> 50} PiB of RAM"
    return lambda survey: None if survey.machine in fitting else (Reason.VALUES, why)
