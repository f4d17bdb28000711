# SPDX-License-Identifier: GPL-2.0-or-later
"""Which surveys count, and why the others do not.

Every file is looked at before an engine reads it: its footer, its digest, and all rows but
those about contents. Rows are checked for many files at once, and where something is wrong
for fewer and fewer, until it is known which file it is. That is left out by name (`Reason`),
and counted. Of a machine the latest survey of the last days counts.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zmeld_fleet import schema, validity
from zmeld_fleet.places import Place, StoredFile
from zmeld_fleet.units import percent
from zmeld_fleet.validity import FlawError, Reason
from zmeld_fleet.words import FleetError, inert, listed, plural
from zmeld_fleet.writing import TEXTS, digest_of

DAYS = 3
"""Days of which surveys count, today included."""
CLOCK_TOLERANCE = timedelta(minutes=15)
"""A survey may be so much newer than its file before its clock is doubted."""
BOOT_TOLERANCE_S = 300.0
"""Two surveys of one boot may disagree by so much on when that was."""
SKETCH_FACTOR = 4
UNREAD_MAX = 0.01
"""Of a machine's memory in use so much may be unreadable, if it is of several processes."""
READERS = 4
BATCH_FILES, BATCH_BYTES = 64, 32 << 20
"""Files that are checked at once."""

ROWS_FEW, BYTES_FEW = 100_000, 16 << 20
"""Rows and bytes that any file may unpack to."""
ROWS_MAX, UNPACKED_MAX = 4, 64
"""More of them for each byte that it has."""

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
    unread: float
    """Share of the memory in use that could not be read."""
    owners: int

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
class Opened:
    """A file with the columns that it should have."""

    stored: StoredFile
    facts: pa.Table
    """All rows but those about contents, in the columns of the format."""
    rows: int
    strange: list[str]
    """Columns that the format does not know."""
    contents: pa.Table | None
    """Some columns of the rows about contents, where they were asked for."""


@dataclass(frozen=True)
class Contents:
    """What some files have besides contents: surveys, and tables of owners and of sizes.

    Both tables have a column `at`: which of the surveys each row is about.
    """

    files: list[Opened]
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


def read(place: Place, key_id: str | None = None, days: int = DAYS) -> Catalogue:
    """Looks at the files of PLACE's last days, and who was there before."""
    stored, refused = place.listed()
    now = utc_now()
    # Of so many days that end today, in UTC.
    first = (now - timedelta(days=min(days - 1, now.toordinal() - 2))).date().isoformat()
    older = [file for file in stored if file.date < first and file.is_named_well]
    current = [file for file in stored if file.date >= first or not file.is_named_well]
    catalogue = Catalogue(place, first, files_seen=len(current))
    catalogue.left_out += [
        LeftOut(inert(path), None, Reason.UNREADABLE, f"its files cannot be listed: {inert(why)}")
        for path, why in refused.items()
    ]
    parts: list[Contents] = []
    for found in look(current):
        if isinstance(found, LeftOut):
            catalogue.left_out.append(found)
        else:
            parts.append(replace(found, files=[]))
    everything = [survey for part in parts for survey in part.surveys]
    catalogue.surveys_seen = len(everything)
    _choose(catalogue, everything, key_id)
    _take_rows(catalogue, parts)
    catalogue.silent = _last_seen(catalogue, older, everything)
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


def _take_rows(catalogue: Catalogue, parts: list[Contents]) -> None:
    """The rows of the surveys that count, from the file that each was taken from."""
    if not catalogue.surveys:
        return
    places = {id(survey): at for at, survey in enumerate(catalogue.surveys)}
    taken: tuple[list[pa.Table], list[pa.Table]] = ([], [])
    for part in parts:
        place = np.array([places.get(id(survey), -1) for survey in part.surveys])
        for table, own in zip((part.owners, part.sizes), taken, strict=True):
            at = pa.array(place[table["at"].to_numpy()])
            own.append(table.set_column(0, "at", at).filter(pc.greater_equal(at, 0)))
    catalogue.owners = pa.concat_tables(taken[0]).sort_by(
        [("at", "ascending"), ("owner", "ascending")]
    )
    catalogue.sizes = pa.concat_tables(taken[1])


def look(files: list[StoredFile], names: list[str] | None = None) -> Iterator[Contents | LeftOut]:
    """Many files, some at a time, in their order; of rows about contents with these columns."""
    ahead: deque[Future[list[Contents | LeftOut]]] = deque()
    with ThreadPoolExecutor(READERS) as readers:
        for batch in _batches(files):
            ahead.append(readers.submit(_look, batch, names))
            if len(ahead) >= READERS:
                yield from ahead.popleft().result()
        for found in ahead:
            yield from found.result()


def _batches(files: list[StoredFile]) -> Iterator[list[StoredFile]]:
    start = size = 0
    for at, file in enumerate(files):
        if at - start == BATCH_FILES or (at > start and size + file.size > BATCH_BYTES):
            yield files[start:at]
            start, size = at, 0
        size += file.size
    yield files[start:]


def _look(batch: list[StoredFile], names: list[str] | None) -> list[Contents | LeftOut]:
    opened = [_opened(file, names) for file in batch]
    found: list[Contents | LeftOut] = [one for one in opened if isinstance(one, LeftOut)]
    return found + _checked([one for one in opened if isinstance(one, Opened)])


def _checked(files: list[Opened]) -> list[Contents | LeftOut]:
    """Halves of them where something is wrong."""
    if not files:
        return []
    try:
        return [_contents(files)]
    except Exception as error:
        if len(files) == 1:
            return [_flawed(files[0].stored, error)]
        middle = len(files) // 2
        return _checked(files[:middle]) + _checked(files[middle:])


def _opened(
    stored: StoredFile, names: list[str] | None, columns: Iterable[str] = schema.COLUMNS
) -> Opened | LeftOut:
    """One file, or why it cannot be used; the digest is checked where all columns are read."""
    try:
        if not stored.is_named_well:
            why = "names are date=YYYY-MM-DD/*.parquet of letters, digits, dots, - and _"
            raise FlawError(why, Reason.NAME)
        with open(os.open(stored.path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            metadata = pq.ParquetFile(file).metadata
            if columns is schema.COLUMNS:
                _check_digest(metadata, file)
            _check_size(metadata, stored.size)
            paths = {metadata.schema.column(at).path for at in range(metadata.num_columns)}
            texts = [name for name in TEXTS if name in paths]
            parquet = pq.ParquetFile(file, metadata=metadata, read_dictionary=texts)
            there = parquet.schema_arrow
            try:
                _check_columns(there)
            except FlawError:
                # Another version may have other columns: what it says it is comes first.
                if "schema" in there.names and metadata.num_row_groups:
                    first = _read(parquet, ["schema"], [0], stored.size)["schema"]
                    _check_version(first.cast(pa.string()))
                raise
            strange = sorted(set(there.names) - set(schema.COLUMNS))
            contents = None if names is None else _about_contents(parquet, names, stored.size)
            facts = _facts(parquet, there, stored.size, columns)
            return Opened(stored, facts, metadata.num_rows, strange, contents)
    except Exception as error:  # Whatever is wrong with it, the other files count.
        return _flawed(stored, error)


def _read(parquet: pq.ParquetFile, names: list[str], groups: Iterable[int], size: int) -> pa.Table:
    """Texts are numbers of texts: none is too long, and all rows' would be no more than a file of
    that size unpacks to."""
    table, unpacked = parquet.read_row_groups(groups, columns=names, use_threads=False), 0
    for name in names:
        is_text = name in TEXTS and pa.types.is_dictionary(table[name].type)
        for chunk in table[name].chunks if is_text else ():
            lengths = validity.check_texts(name, chunk.dictionary)
            unpacked += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    if unpacked > BYTES_FEW + UNPACKED_MAX * size:
        said = f"texts of {plural(unpacked, 'byte', 'bytes')}"
        raise FlawError(f"{said} in a file of {plural(size, 'byte', 'bytes')}", Reason.ROWS)
    return table


def _about_contents(parquet: pq.ParquetFile, names: list[str], size: int) -> pa.Table:
    table = _read(parquet, ["record", *names], range(parquet.num_row_groups), size)
    is_content = pc.equal(table["record"].cast(pa.string()), schema.CONTENT)
    return table.filter(is_content).select(names)


def _flawed(stored: StoredFile, error: Exception) -> LeftOut:
    """What the system refuses has a number; what pyarrow cannot make sense of has none."""
    reason, why = Reason.DAMAGED, str(error)
    if isinstance(error, FlawError):
        reason = error.reason
    elif isinstance(error, OSError) and error.errno is not None:
        hint = "; root or its owner may read it" if isinstance(error, PermissionError) else ""
        reason, why = Reason.UNREADABLE, f"{os.strerror(error.errno)}{hint}"
    return LeftOut(inert(stored.path), None, reason, inert(why))


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


def _check_size(metadata: pq.FileMetaData, size: int, few: list[int] | None = None) -> None:
    """What a file unpacks to: of rows that are read whole no more than it has bytes."""
    groups = [metadata.row_group(at) for at in few or range(metadata.num_row_groups)]
    rows, unpacked = (
        sum(getattr(group, name) for group in groups) for name in ("num_rows", "total_byte_size")
    )
    most = ROWS_FEW + size * (ROWS_MAX if few is None else 1)
    if rows > most or unpacked > BYTES_FEW + UNPACKED_MAX * size:
        said = f"{plural(rows, 'row', 'rows')} and {plural(unpacked, 'byte', 'bytes')}"
        raise FlawError(f"{said} in a file of {plural(size, 'byte', 'bytes')}", Reason.ROWS)


def _check_version(texts: pa.ChunkedArray) -> None:
    if foreign := {*map(str, pc.unique(texts).to_pylist())} - {schema.SCHEMA}:
        why = f"its schema is {listed(foreign)}, read is {schema.SCHEMA}"
        raise FlawError(why, Reason.VERSION)


@lru_cache
def _check_columns(there: pa.Schema) -> None:
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


def _facts(
    parquet: pq.ParquetFile, there: pa.Schema, size: int, columns: Iterable[str]
) -> pa.Table:
    names = [n for n in columns if n in there.names and not n.startswith("hash_")]
    record, groups = there.get_field_index("record"), []
    for at in range(parquet.num_row_groups):
        told = parquet.metadata.row_group(at).column(record).statistics
        if not (told and told.has_min_max and told.min == told.max == schema.CONTENT):
            groups.append(at)
    _check_size(parquet.metadata, size, groups)
    table = _read(parquet, names, groups, size)
    table = table.filter(pc.not_equal(table["record"].cast(pa.string()), schema.CONTENT))
    columns = [
        table[name].cast(kind) if name in names else pa.nulls(len(table), kind)
        for name, kind in schema.COLUMNS.items()
    ]
    return pa.Table.from_arrays(columns, schema=schema.ARROW)


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


def _machines(files: list[Opened]) -> tuple[pa.Table, pa.Table]:
    """All facts of some files, with the number of the file, and those about machines."""
    of_file = np.repeat(np.arange(len(files)), [len(one.facts) for one in files])
    facts = pa.concat_tables([one.facts for one in files]).combine_chunks()
    facts = facts.append_column(validity.FILE, pa.array(of_file))
    _check_version(facts["schema"])
    validity.check_values(facts)
    if strange := {*pc.unique(facts["record"]).to_pylist()} - set(schema.RECORDS):
        raise FlawError(f"rows of an unknown record: {listed(strange, 5)}")
    machines = validity.rows_about(facts, schema.MACHINE)
    validity.check_machines(machines)
    of_file, rows = machines[validity.FILE].to_numpy(), machines["rows"].to_numpy()
    for number, one in enumerate(files):
        if (said := int(rows[of_file == number].sum())) != one.rows:
            why = f"{plural(one.rows, 'row', 'rows')}, and it says {said}"
            raise FlawError(why, Reason.ROWS)
    return facts, machines


def _contents(files: list[Opened]) -> Contents:
    facts, machines = _machines(files)
    owners = validity.rows_about(facts, schema.OWNER)
    at = validity.check_owners(owners, machines)
    sizes = validity.rows_about(facts, schema.SIZE)
    validity.check_sizes(sizes, machines)
    tables = []
    for table, names in (
        (owners, OWNER_ROWS),
        (sizes, ["object_class", "count", *schema.SIZE_COLUMNS]),
    ):
        where = pa.array(validity.machine_of(table, machines), pa.int64())
        tables.append(table.select(names).add_column(0, "at", where))
    count = len(machines)
    owned = np.bincount(at, minlength=count)
    pages = (np.nan_to_num(validity.floats(owners, name)) for name in ("pages", "pages_skipped"))
    read, skipped = (np.bincount(at, one, count) for one in pages)
    unread = skipped / np.maximum(read + skipped, 1.0)
    labels = _labels(validity.rows_about(facts, schema.LABEL), machines)
    said_of = machines.select(["survey", "machine", "time", *FACTS]).to_pylist()
    surveys = []
    for row, whose, *rest in zip(
        said_of,
        machines[validity.FILE].to_pylist(),
        labels,
        unread.tolist(),
        owned.tolist(),
        strict=True,
    ):
        ids = [row.pop(name) for name in ("survey", "machine", "time")]
        for name, value in row.items():
            row[name] = sys.intern(value) if isinstance(value, str) else value
        surveys.append(Survey(*ids, files[whose].stored, row, *rest))  # type: ignore
    return Contents(files, surveys, *tables)


def _labels(rows: pa.Table, machines: pa.Table) -> list[dict[str, str]]:
    labels: list[dict[str, str]] = [{} for _ in range(len(machines))]
    texts = (rows[name].to_pylist() for name in ("label_name", "label_value"))
    for at, name, value in zip(validity.machine_of(rows, machines), *texts, strict=True):
        if name in labels[at]:
            raise FlawError(f"more than one value for the label {inert(name)}")
        labels[at][sys.intern(name)] = sys.intern(value)
    return labels


def _once(catalogue: Catalogue, surveys: list[Survey]) -> list[Survey]:
    """A survey counts once, from the first file that it is in."""
    kept: dict[str, Survey] = {}
    for survey in sorted(surveys, key=lambda survey: survey.file.path):
        first = kept.setdefault(survey.survey, survey)
        if first is not survey:
            why = f"the same survey is in {first.file.name}, and counts there"
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
    if refused > 1 and survey.unread >= UNREAD_MAX:
        said = f"{refused} processes with {percent(survey.unread)} of the memory in use"
        return Reason.PARTIAL, f"{said} might not be read; root may, outside of containers"
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
    """Of each machine the newest."""
    kept: dict[str, Survey] = {}
    for survey in sorted(surveys, key=_age, reverse=True):
        newer = kept.setdefault(survey.machine, survey)
        if newer is survey:
            continue
        one, two = survey.facts["host"], newer.facts["host"]
        if one != two:
            why = f"hosts {one} and {two} have one machine id: give a clone its own"
            catalogue.leave(survey, Reason.SAME_ID, why)
        else:
            why = f"the machine was surveyed again at {newer.time:%Y-%m-%dT%H:%M:%SZ}"
            catalogue.leave(survey, Reason.SUPERSEDED, why)
    return list(kept.values())


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


def _last_seen(catalogue: Catalogue, files: list[StoredFile], seen: list[Survey]) -> list[Silent]:
    """When machines were last surveyed that are not seen now, neither by id nor by host.

    Of each one's own files the newest is opened. Ids with another key say nothing. Of a host
    that was made anew each day the ids of its last day are taken.
    """
    known = {survey.machine for survey in seen}
    hosts = {survey.facts["host"] for survey in seen} - {None, ""}
    newest: dict[str, StoredFile] = {}
    for file in files:
        named = _NAMED.fullmatch(file.name)
        key = named[1] if named else file.path
        if key not in known:
            newest[key] = max(newest.get(key, file), file, key=lambda one: one.name)
    last: dict[str, Silent] = {}
    with ThreadPoolExecutor(READERS) as readers:
        for found in readers.map(_machines_of, newest.values()):
            if isinstance(found, LeftOut):
                catalogue.left_out.append(found)
                continue
            for key, machine, host, time in found:
                is_there = machine in known or host in hosts or key != catalogue.key_id
                if not is_there and (machine not in last or last[machine].last < time):
                    last[machine] = Silent(machine, host or "", time)
    days: dict[str, date] = {}
    for one in last.values():
        whose = one.host or one.machine
        days[whose] = max(days.get(whose, date.min), one.last.date())
    silent = [one for one in last.values() if one.last.date() == days[one.host or one.machine]]
    silent = [replace(one, host=inert(one.host or "–")) for one in silent]
    return sorted(silent, key=lambda one: (one.last, one.machine))


PAST = ["key_id", "machine", "host", "time"]
PAST_CHECKED = ["schema", "record", "survey", "page_size", "rows"]


def _machines_of(file: StoredFile) -> list[tuple[str, str, str | None, datetime]] | LeftOut:
    """Who is in a file of the past."""
    opened = _opened(file, None, PAST + PAST_CHECKED)
    try:
        if isinstance(opened, LeftOut):
            return opened
        _, machines = _machines([opened])
        return list(zip(*(machines[name].to_pylist() for name in PAST), strict=True))
    except Exception as error:
        return _flawed(file, error)
