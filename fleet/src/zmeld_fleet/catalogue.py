# SPDX-License-Identifier: GPL-2.0-or-later
"""Which surveys count, and why the others do not.

Every file is looked at before an engine reads it: its footer, its digest, and all rows but
those about contents. What is wrong with it has a name (`Reason`), is left out, and is
counted. Of a machine the latest survey of the last days counts.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zmeld_fleet import schema, validity
from zmeld_fleet.places import Place, StoredFile
from zmeld_fleet.validity import FlawError, Reason
from zmeld_fleet.words import FleetError, inert, listed, plural
from zmeld_fleet.writing import MAGIC, digest_of

DAYS = 3
"""Days of which surveys count, today included."""
CLOCK_TOLERANCE = timedelta(minutes=15)
"""A survey may be so much newer than its file before its clock is doubted."""
BOOT_TOLERANCE_S = 300.0
"""Two surveys of one boot may disagree by so much on when that was."""
SKETCH_FACTOR = 4
REFUSED_MAX = 0.01
"""Of a machine's processes so many may be unreadable."""
READERS = 4

Flaw = tuple[Reason, str] | None


def utc_now() -> datetime:
    """The time; tests have one of their own."""
    return datetime.now(timezone.utc)


@dataclass(frozen=True)
class LeftOut:
    """A file, or one survey of it, that does not count."""

    file: str
    survey: str | None
    reason: Reason
    why: str


FACTS = (
    "key_id host kernel architecture distribution page_size ram_bytes swap_used_bytes "
    "compressed_swap memory_some_avg300 uptime_seconds interrupted selection processes_refused "
    "sketch_size zram_codecs modules"
).split()


@dataclass(frozen=True, slots=True)
class Survey:
    """One machine at one time."""

    survey: str
    machine: str
    time: datetime
    file: StoredFile
    facts: dict[str, Any]
    labels: dict[str, str]
    processes: int
    """That were read."""
    owners: int
    at: int
    """Its row among the machines of its file."""

    @property
    def host(self) -> str:
        """Its name for people."""
        return self.facts["host"] or "–"

    @property
    def booted(self) -> float | None:
        """When the machine started by its own clock, in seconds since 1970."""
        uptime = self.facts["uptime_seconds"]
        return None if uptime is None else self.time.timestamp() - uptime


@dataclass(frozen=True)
class Silent:
    """A machine that was surveyed once, and in the last days no more."""

    machine: str
    host: str
    last: datetime


@dataclass(frozen=True)
class Contents:
    """What a file has besides contents: its surveys, and tables of owners and of sizes.

    Both tables have a column `at`: which of the surveys each row is about.
    """

    surveys: list[Survey]
    owners: pa.Table
    sizes: pa.Table


@dataclass
class Catalogue:
    """What there is, what counts, and what is left out."""

    place: Place
    first_day: str = ""
    files_seen: int = 0
    surveys_seen: int = 0
    key_id: str | None = None
    page_size: int = 4096
    surveys: list[Survey] = field(default_factory=list)
    """What counts: the latest of each machine."""
    left_out: list[LeftOut] = field(default_factory=list)
    silent: list[Silent] = field(default_factory=list)
    refused: list[Survey] = field(default_factory=list)
    """Machines without a survey that counts, since their memory was short."""
    owners: pa.Table | None = None
    """Of what counts; `at` is the survey's place in `surveys`."""
    sizes: pa.Table | None = None

    def leave(self, survey: Survey, reason: Reason, why: str) -> None:
        """A survey does not count."""
        path = inert(survey.file.path)
        self.left_out.append(LeftOut(path, inert(survey.survey), reason, inert(why)))

    def sift(self, surveys: list[Survey], flaw_of: Callable[[Survey], Flaw]) -> list[Survey]:
        """Those without a flaw; the others are left out."""
        kept = []
        for survey in surveys:
            if (flaw := flaw_of(survey)) is None:
                kept.append(survey)
            else:
                self.leave(survey, *flaw)
        return kept


def _age(survey: Survey) -> tuple[datetime, str]:
    return survey.time, survey.survey


def first_day(days: int) -> str:
    """The first of so many days that end today, in UTC."""
    now = utc_now()
    return (now - timedelta(days=min(days - 1, now.toordinal() - 2))).date().isoformat()


def read(place: Place, key_id: str | None = None, days: int = DAYS) -> Catalogue:
    """Looks at the files of PLACE's last days, and who was there before."""
    stored, refused = place.listed()
    first = first_day(days)
    current = [file for file in stored if file.date >= first]
    catalogue = Catalogue(place, first, files_seen=len(current))
    catalogue.left_out += [
        LeftOut(inert(path), None, Reason.UNREADABLE, f"its files cannot be listed: {inert(why)}")
        for path, why in refused.items()
    ]
    looked: dict[str, Contents] = {}
    with ThreadPoolExecutor(READERS) as readers:
        for found in readers.map(look, current):
            if isinstance(found, LeftOut):
                catalogue.left_out.append(found)
            else:
                looked[found.surveys[0].file.path] = found
    everything = [survey for found in looked.values() for survey in found.surveys]
    catalogue.surveys_seen = len(everything)
    _choose(catalogue, everything, key_id)
    _take_rows(catalogue, looked)
    known = {survey.machine for survey in everything}
    older = [file for file in stored if file.date < first]
    catalogue.silent = _last_seen(older, known)
    if older and not current:
        newest = max(file.date for file in older)
        age = (utc_now().date() - datetime.strptime(newest, "%Y-%m-%d").date()).days + 1
        raise FleetError(
            f"{place.shown}: no survey of the last {plural(days, 'day', 'days')}; the newest is "
            f"of {newest}: machines survey no more, or --since {age}d reads it"
        )
    catalogue.left_out.sort(key=lambda left: (left.file, left.survey or "", left.reason.value))
    return catalogue


def _choose(catalogue: Catalogue, everything: list[Survey], key_id: str | None) -> None:
    found = catalogue.sift(_once(catalogue, everything), _incomplete)
    catalogue.key_id = key_id or _usual(survey.facts["key_id"] for survey in found)
    why = "its key is {0}, counted are those with {1}"
    found = catalogue.sift(found, _all_with("key_id", catalogue.key_id, Reason.KEY, why))
    catalogue.page_size = page = _usual(survey.facts["page_size"] for survey in found) or 4096
    why = "its pages have {0} bytes, counted are those with {1}"
    found = catalogue.sift(found, _all_with("page_size", page, Reason.PAGE_SIZE, why))
    found = catalogue.sift(found, _alike(found))
    now = utc_now()
    found = catalogue.sift(found, lambda survey: _clock_flaw(survey, now))
    found = _replaced(catalogue, _latest(catalogue, found))
    catalogue.surveys = sorted(found, key=lambda survey: survey.machine)
    counted = {survey.machine for survey in catalogue.surveys}
    gave_none = sorted((s for s in everything if _gave_none(s)), key=_age)
    latest = {survey.machine: survey for survey in gave_none}
    catalogue.refused = [one for machine, one in sorted(latest.items()) if machine not in counted]


def _take_rows(catalogue: Catalogue, looked: dict[str, Contents]) -> None:
    """The rows of the surveys that count, from the file that each was taken from."""
    places: dict[str, dict[int, int]] = defaultdict(dict)
    for at, survey in enumerate(catalogue.surveys):
        places[survey.file.path][survey.at] = at
    parts: tuple[list[pa.Table], list[pa.Table]] = ([], [])
    for path, chosen in sorted(places.items()):
        found = looked.pop(path)
        for table, own in zip((found.owners, found.sizes), parts, strict=True):
            where = [chosen.get(one) for one in table["at"].to_pylist()]
            renamed = table.set_column(0, "at", pa.array(where, pa.int64()))
            own.append(renamed.filter(pc.is_valid(renamed["at"])))
    if places:
        order = [("at", "ascending"), ("owner", "ascending")]
        catalogue.owners = pa.concat_tables(parts[0]).sort_by(order)
        catalogue.sizes = pa.concat_tables(parts[1])


def look(stored: StoredFile) -> Contents | LeftOut:
    """One file, or why it cannot be used."""
    try:
        if not stored.is_named_well:
            why = "names are date=YYYY-MM-DD/*.parquet of letters, digits, dots, - and _"
            raise FlawError(why, Reason.NAME)
        with open(os.open(stored.path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            _check_magic(file)
            parquet = pq.ParquetFile(file, memory_map=False)
            _check_digest(parquet.metadata, file)
            _check_columns(parquet)
            return _contents(parquet, stored)
    except Exception as error:  # Whatever is wrong with it, the other files count.
        return _flawed(stored, error)


def _flawed(stored: StoredFile, error: Exception) -> LeftOut:
    """What the system refuses has a number; what pyarrow cannot make sense of has none."""
    reason, why = Reason.DAMAGED, str(error)
    if isinstance(error, FlawError):
        reason = error.reason
    elif isinstance(error, OSError) and error.errno is not None:
        hint = "; root or its owner may read it" if isinstance(error, PermissionError) else ""
        reason, why = Reason.UNREADABLE, f"{os.strerror(error.errno)}{hint}"
    return LeftOut(inert(stored.path), None, reason, inert(why))


def _check_magic(file: Any) -> None:
    size = os.fstat(file.fileno()).st_size
    head = file.read(len(MAGIC))
    file.seek(max(size - len(MAGIC), 0))
    tail = file.read()
    file.seek(0)
    if size >= 12 and head != MAGIC:
        raise FlawError("it does not begin as Parquet does", Reason.NOT_PARQUET)
    if size < 12 or tail != MAGIC:
        raise FlawError(f"of {plural(size, 'byte', 'bytes')}, without an end", Reason.TRUNCATED)


def _check_digest(metadata: pq.FileMetaData, file: Any) -> None:
    """Whether the columns are as they were written, where the writer left a digest.

    It is not against forgery.
    """
    said = (metadata.metadata or {}).get(schema.DIGEST)
    if said is None:
        return
    parts = re.fullmatch(rb"([0-9a-f]{8}) ([0-9]{1,18})", said)
    if parts is None:
        raise FlawError(f"its digest is no digest: {inert(said[:40])}", Reason.DIGEST)
    if (found := digest_of(file, int(parts[2]))) != int(parts[1], 16):
        why = f"its columns have the digest {found:08x}, not {parts[1].decode()}"
        raise FlawError(why, Reason.DIGEST)


def _check_columns(parquet: pq.ParquetFile) -> None:
    there = parquet.schema_arrow
    if "schema" not in there.names:
        raise FlawError(f"it has no column `schema`; read is {schema.SCHEMA}", Reason.VERSION)
    # Another version may have other columns: so what it says it is comes first.
    if parquet.num_row_groups:
        texts = parquet.read_row_group(0, columns=["schema"])["schema"]
        if foreign := {*map(str, pc.unique(texts).to_pylist())} - {schema.SCHEMA}:
            why = f"its schema is {listed(foreign)}, read is {schema.SCHEMA}"
            raise FlawError(why, Reason.VERSION)
    lowered = Counter(name.lower() for name in there.names)
    if alike := [name for name in there.names if lowered[name.lower()] > 1 or not name]:
        # Engines that do not tell capitals from others would read one for the other.
        why = f"columns whose names stand for others: {listed(map(repr, alike), 5)}"
        raise FlawError(why, Reason.COLUMNS)
    wanted = {name: kind for name, kind in schema.COLUMNS.items() if name in there.names}
    if missing := [n for n in schema.COLUMNS if n not in wanted and n not in schema.NEW]:
        raise FlawError(f"no column {', '.join(missing[:5])}", Reason.COLUMNS)
    if wrong := [n for n, kind in wanted.items() if not _fits(there.field(n).type, kind)]:
        raise FlawError(f"another type: {', '.join(wrong[:5])}", Reason.COLUMNS)


def _fits(there: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_dictionary(there):
        there = there.value_type
    if pa.types.is_timestamp(wanted):
        return bool(there == wanted or there == pa.timestamp("us", tz="Etc/UTC"))
    if pa.types.is_string(wanted):
        return pa.types.is_string(there) or pa.types.is_large_string(there)
    return bool(there == wanted)


def facts_of(parquet: pq.ParquetFile) -> pa.Table:
    """All rows but those about contents, in the columns of the format."""
    there = set(parquet.schema_arrow.names)
    names = [n for n in schema.COLUMNS if n in there and not n.startswith("hash_")]
    record = parquet.schema_arrow.get_field_index("record")
    found = [schema.ARROW.empty_table()]
    for at in range(parquet.num_row_groups):
        told = parquet.metadata.row_group(at).column(record).statistics
        if told is not None and told.has_min_max and told.min == told.max == schema.CONTENT:
            continue
        table = parquet.read_row_group(at, columns=names, use_threads=False)
        table = table.filter(pc.not_equal(table["record"], schema.CONTENT))
        columns = []
        for name, kind in schema.COLUMNS.items():
            own = table[name] if name in names else pa.nulls(len(table), kind)
            columns.append(own if own.type == kind else own.cast(kind))
        found.append(pa.Table.from_arrays(columns, schema=schema.ARROW))
    return pa.concat_tables(found)


OWNER_ROWS = ["survey", "owner", "kind", "name", "pages", "pages_zero", "pages_same", "theta"]
OWNER_ROWS += ["pages_swapped", "pages_locked", "idle_1m", "idle_10m", "idle_1h"]
OWNER_ROWS += [
    f"{name}{end}"
    for name in (
        "pages_distinct",
        *(f"{of}_{c}" for c in schema.CODECS for of in ("pool", "melded")),
    )
    for end in ("", "_low", "_high")
]


def _contents(parquet: pq.ParquetFile, stored: StoredFile) -> Contents:
    facts = facts_of(parquet)
    validity.check_values(facts)
    if strange := {*pc.unique(facts["record"]).to_pylist()} - set(schema.RECORDS):
        raise FlawError(f"rows of an unknown record: {listed(strange, 5)}")
    machines = validity.rows_about(facts, schema.MACHINE)
    validity.check_machines(machines)
    said, rows = pc.sum(machines["rows"]).as_py(), parquet.metadata.num_rows
    if said != rows:
        raise FlawError(f"{plural(rows, 'row', 'rows')}, and it says {said}", Reason.ROWS)
    owners = validity.rows_about(facts, schema.OWNER)
    at = validity.check_owners(owners, machines)
    sizes = validity.rows_about(facts, schema.SIZE)
    validity.check_sizes(sizes, machines)
    tables = []
    for table, names in (
        (owners, OWNER_ROWS),
        (sizes, ["object_class", "count", *schema.SIZE_COLUMNS]),
    ):
        placed = table.select(names)
        where = pa.array(validity.machine_of(table, machines), pa.int64())
        tables.append(placed.add_column(0, "at", where))
    processes = [0] * len(machines)
    counts = [0] * len(machines)
    for machine, own in zip(at.tolist(), owners["processes"].to_pylist(), strict=True):
        processes[machine] += own or 0
        counts[machine] += 1
    surveys = _surveys(stored, facts, machines, processes, counts)
    return Contents(surveys, *tables)


def _surveys(
    stored: StoredFile,
    facts: pa.Table,
    machines: pa.Table,
    processes: list[int],
    owners: list[int],
) -> list[Survey]:
    labels: dict[str, dict[str, str]] = defaultdict(dict)
    rows = validity.rows_about(facts, schema.LABEL)
    for survey, name, value in zip(
        *(rows[n].to_pylist() for n in ("survey", "label_name", "label_value")), strict=True
    ):
        if name in labels[survey]:
            raise FlawError(f"more than one value for the label {inert(name)}")
        labels[survey][sys.intern(name)] = sys.intern(value)
    told = zip(*(machines[name].to_pylist() for name in FACTS), strict=True)
    ids = zip(*(machines[name].to_pylist() for name in ("survey", "machine", "time")), strict=True)
    found = []
    for at, ((survey, machine, time), values) in enumerate(zip(ids, told, strict=True)):
        own = {
            name: sys.intern(value) if isinstance(value, str) else value
            for name, value in zip(FACTS, values, strict=True)
        }
        found.append(
            Survey(
                survey, machine, time, stored, own, labels[survey], processes[at], owners[at], at
            )
        )
    return found


def _once(catalogue: Catalogue, surveys: list[Survey]) -> list[Survey]:
    """A survey counts once, from the first file that it is in."""
    kept: dict[str, Survey] = {}
    for survey in sorted(surveys, key=lambda survey: survey.file.path):
        first = kept.setdefault(survey.survey, survey)
        if first is not survey:
            why = f"the same survey is in {first.file.name}"
            if any(
                getattr(survey, name) != getattr(first, name)
                for name in ("machine", "time", "facts", "labels", "owners")
            ):
                why = f"{first.file.name} says something else of the same survey, and counts"
            catalogue.leave(survey, Reason.TWICE, why)
    return list(kept.values())


def _gave_none(survey: Survey) -> bool:
    """Nothing was read before it ended: memory was short."""
    return bool(survey.facts["interrupted"]) and survey.owners == 0


def _incomplete(survey: Survey) -> Flaw:
    if _gave_none(survey):
        return Reason.REFUSED, "memory was short, so the machine gave no survey"
    if survey.facts["interrupted"]:
        return Reason.INTERRUPTED, "it was stopped before everything was read"
    if survey.facts["selection"] is not None:
        return Reason.SELECTION, f"it is of some processes only: {survey.facts['selection']}"
    refused = survey.facts["processes_refused"] or 0
    if refused >= REFUSED_MAX * (survey.processes + refused) and refused:
        all_of_them = plural(survey.processes + refused, "process", "processes")
        return Reason.PARTIAL, f"{refused} of {all_of_them} might not be read; root may"
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
    if f"{survey.time:%Y-%m-%d}" != survey.file.date:
        why = f"it was made on {survey.time:%Y-%m-%d} and lies under date={survey.file.date}"
    elif uptime is not None and uptime < 0.0:
        why = "the machine says that it has not started yet"
    elif survey.time > now + CLOCK_TOLERANCE:
        why = f"its time, {survey.time:%Y-%m-%dT%H:%M:%SZ}, is yet to come"
    elif survey.time > written + CLOCK_TOLERANCE:
        why = f"its time is after {written:%Y-%m-%dT%H:%M:%SZ}, when the file was written"
    return None if why is None else (Reason.CLOCK, why)


def _latest(catalogue: Catalogue, surveys: list[Survey]) -> list[Survey]:
    """Of each machine the newest.

    Between two surveys a machine ran on, or started anew after the first. If it says
    neither, its clock was set in between.
    """
    kept: dict[str, Survey] = {}
    for survey in sorted(surveys, key=_age, reverse=True):
        newer = kept.setdefault(survey.machine, survey)
        if newer is survey:
            continue
        one, two = survey.facts["host"], newer.facts["host"]
        if one != two:
            why = f"hosts {one} and {two} have one machine id: give a clone its own"
            catalogue.leave(survey, Reason.SAME_ID, why)
        elif not _fits_before(survey, newer):
            why = "its uptime does not fit with that of the machine's next survey: a clock was set"
            catalogue.leave(survey, Reason.CLOCK, why)
        else:
            why = f"the machine was surveyed again at {newer.time:%Y-%m-%dT%H:%M:%SZ}"
            catalogue.leave(survey, Reason.SUPERSEDED, why)
    return list(kept.values())


def _fits_before(older: Survey, newer: Survey) -> bool:
    if older.booted is None or newer.booted is None:
        return True
    ran_on = abs(newer.booted - older.booted) <= BOOT_TOLERANCE_S
    return ran_on or newer.booted >= older.time.timestamp() - BOOT_TOLERANCE_S


def _replaced(catalogue: Catalogue, surveys: list[Survey]) -> list[Survey]:
    """A host that is made anew has another machine id each time, and is one machine.

    So it is where the other id was surveyed on a later day, and did not run yet when the
    first was surveyed. Hosts of one name that run at the same time are several machines.
    """
    by_host: dict[str, list[Survey]] = defaultdict(list)
    for survey in surveys:
        by_host[survey.facts["host"] or survey.machine].append(survey)
    newest: dict[str, Survey] = {}
    for own in by_host.values():
        own.sort(key=_age)
        for survey, newer in zip(own, own[1:], strict=False):
            began = newer.booted or newer.time.timestamp()
            later = newer.file.date > survey.file.date
            if later and began >= survey.time.timestamp() - BOOT_TOLERANCE_S:
                newest[survey.survey] = newer
    why = "{0} started anew under another machine id, and was surveyed at {1:%Y-%m-%dT%H:%M:%SZ}"
    return catalogue.sift(
        surveys,
        lambda survey: (
            (Reason.REPLACED, why.format(survey.host, newest[survey.survey].time))
            if survey.survey in newest
            else None
        ),
    )


_NAMED = re.compile(r"([0-9a-f]{32})-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}\.parquet")


def _last_seen(files: list[StoredFile], known: set[str]) -> list[Silent]:
    """When machines were last surveyed that are not known; of each one's own files the newest is
    opened."""
    newest: dict[str, StoredFile] = {}
    for file in files:
        named = _NAMED.fullmatch(file.name)
        key = named[1] if named else file.path
        if key not in known:
            newest[key] = max(newest.get(key, file), file, key=lambda one: one.name)
    last: dict[str, Silent] = {}
    with ThreadPoolExecutor(READERS) as readers:
        for rows in readers.map(_machines_of, newest.values()):
            for machine, host, time in rows:
                is_newer = machine not in last or last[machine].last < time
                if machine not in known and is_newer:
                    last[machine] = Silent(machine, inert(host or "–"), time)
    return sorted(last.values(), key=lambda one: (one.last, one.machine))


def _machines_of(file: StoredFile) -> list[tuple[str, str | None, datetime]]:
    """Who is in a file of the past; what cannot be read says nothing."""
    try:
        rows = pq.read_table(
            file.path,
            columns=["machine", "host", "time"],
            filters=pc.field("record") == schema.MACHINE,
            partitioning=None,
        )
    except Exception:
        return []
    return list(zip(*(rows[n].to_pylist() for n in rows.column_names), strict=True))
