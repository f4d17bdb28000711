# SPDX-License-Identifier: GPL-2.0-or-later
"""`pack`: a day's many small files become one, sorted by hash.

Invariants:
- Contents take bounded memory: they go through one file a range of hashes, each sorted
  by itself. The rows about machines and owners are held, some 60 KiB a machine.
- The pack is whole, on the disk and under its name before an original is deleted. After
  a kill at any moment every survey is still there, once or twice; twice counts once.
- Where two files have other rows of one survey, neither is touched.
- A file is read to its end before it is taken, with its footer not believed, and the pack is
  looked at as a report would before an original is deleted.
- Columns that this package does not know are carried along.
- Nobody may read a pack who might not read each of its surveys; no link is followed.
- What a report would not read as a file (truncated, another version) is left alone.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zmeld_fleet.catalogue import FileContents, LeftOut, Reason, first_day, look, unlisted, verify
from zmeld_fleet.places import Place, PlaceError, StoredFile
from zmeld_fleet.sameness import digests
from zmeld_fleet.schema import (
    ARROW,
    CONTENT,
    CONTENT_COLUMNS,
    FOLDER,
    HASH_MIN,
    LABEL,
    MACHINE,
    OWNER,
    PACKED_PREFIX,
    SIZE,
)
from zmeld_fleet.words import inert
from zmeld_fleet.writing import GROUP_ROWS, complete, sync_folder, whole_file

RANGE_ROWS = 1_000_000
"""Rows of contents that are sorted at once, about."""
RANGES_MAX = 512

_CONTENT_COLUMNS = (
    *("schema", "record", "machine", "survey", "time", "owner"),
    *CONTENT_COLUMNS,
)


@dataclass(frozen=True)
class Packed:
    """A day that was packed."""

    date: str
    path: Path
    files: int
    surveys: int
    rows: int


def pack(place: Place, least: int = 2) -> tuple[list[Packed], list[LeftOut]]:
    """Packs every day that has at least so many files."""
    _refuse_store(place)
    packed, left = [], []
    with _alone(place):
        days: dict[str, list[StoredFile]] = defaultdict(list)
        files, refused = place.listed()
        left += unlisted(refused)
        for stored in files:
            days[stored.date].append(stored)
        for found in days.values():
            _refuse_link(Path(found[0].path).parent)
        for date, files in sorted(days.items()):
            done, flaws = _pack_day(place, date, files, least)
            packed += done
            left += flaws
    return packed, left


def expire(place: Place, days: int, now: datetime | None = None) -> list[tuple[str, int]]:
    """Deletes the surveys of all but the last so many days; each day with its files.

    What is not named as a survey stays, and so does its folder.
    """
    _refuse_store(place)
    first = first_day(days, now)
    expired: dict[str, list[StoredFile]] = defaultdict(list)
    with _alone(place):
        for stored in place.surveys():
            if stored.is_named_well and first is not None and stored.date < first:
                expired[stored.date].append(stored)
        for files in expired.values():
            folder = Path(files[0].path).parent
            _refuse_link(folder)
            for stored in files:
                os.unlink(stored.path)
            sync_folder(folder)
            with suppress(OSError):
                folder.rmdir()
    return [(date, len(files)) for date, files in sorted(expired.items())]


def _refuse_store(place: Place) -> None:
    if not place.local:
        raise PlaceError(f"{place.shown}: pack works in a folder; mount the store, or pack a copy")


@contextmanager
def _alone(place: Place) -> Iterator[None]:
    """Two packs at once would delete each other's files."""
    folder = Path(place.root) / FOLDER
    if not folder.is_dir():
        place.surveys()  # It says what is missing.
    _refuse_link(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise PlaceError(f"{place.shown}: another pack works there; wait for it") from error
    except OSError:
        pass  # A file system without locks.
    try:
        yield
    finally:
        os.close(handle)


def _refuse_link(folder: Path) -> None:
    if folder.is_symlink():
        raise PlaceError(
            f"{inert(folder)}: is a link, and pack deletes files; pack the place it leads to"
        )


def _pack_day(
    place: Place, date: str, stored: list[StoredFile], least: int
) -> tuple[list[Packed], list[LeftOut]]:
    links = [one for one in stored if os.path.islink(one.path)]
    looked = [look(place, file) for file in stored if file not in links]
    looked = [_read_whole(place, one) for one in looked]
    left = [one for one in looked if isinstance(one, LeftOut)]
    why = "it is a link, and pack would copy what it leads to"
    left += [LeftOut(inert(one.path), None, Reason.NAME, why) for one in links]
    whole = [one for one in looked if isinstance(one, FileContents)]
    if len(whole) < least:
        return [], left
    extras, strangers = _extras(whole)
    strangers += _contradictions(whole)
    left += strangers
    apart = {flaw.file for flaw in strangers}
    whole = [one for one in whole if inert(one.file.path) not in apart]
    if len(whole) < least:
        return [], left
    folder = Path(whole[0].file.path).parent
    target = folder / f"{PACKED_PREFIX}{secrets.token_hex(8)}.parquet"
    surveys, sources = _each_once(whole)
    rows = unite(sources, target, extras)
    flaw = _unsound(place, date, target, surveys)
    if flaw is not None:
        os.unlink(target)
        return [], [*left, flaw]
    for one in whole:
        os.unlink(one.file.path)
    sync_folder(folder)
    return [Packed(date, target, len(whole), surveys, rows)], left


def _read_whole(place: Place, found: FileContents | LeftOut) -> FileContents | LeftOut:
    """A file that is broken, or whose footer lies, would take the whole pack along."""
    if isinstance(found, LeftOut):
        return found
    return verify(place, found.file) or found


def _unsound(place: Place, date: str, target: Path, surveys: int) -> LeftOut | None:
    """Why a pack would not count, for which its originals are kept."""
    status = target.stat()
    modified = datetime.fromtimestamp(status.st_mtime, timezone.utc)
    looked = look(place, StoredFile(str(target), target.name, date, status.st_size, modified))
    folder = inert(target.parent)
    if isinstance(looked, LeftOut):
        why = f"its files would not count as a pack, and stay as they are: {looked.why}"
        return LeftOut(folder, None, looked.reason, why)
    if len(looked.surveys) != surveys:
        why = f"a pack would have {len(looked.surveys)} surveys, and not {surveys}"
        return LeftOut(folder, None, Reason.ROWS, why)
    return None


def _extras(files: list[FileContents]) -> tuple[list[pa.Field], list[LeftOut]]:
    """The columns beyond the format of all files; those that contradict the others' types."""
    found: dict[str, pa.Field] = {}
    flaws = []
    for one in files:
        with pq.ParquetFile(one.file.path) as file:
            fields = [file.schema_arrow.field(name) for name in sorted(one.extras)]
        wrong = [f.name for f in fields if found.get(f.name, f).type != f.type]
        if wrong:
            why = f"another type than in the day's other files: {inert(', '.join(wrong))}"
            flaws.append(LeftOut(inert(one.file.path), None, Reason.COLUMNS, why))
            continue
        for field in fields:
            found.setdefault(field.name, pa.field(field.name, field.type))
    return [found[name] for name in sorted(found)], flaws


def _contradictions(files: list[FileContents]) -> list[LeftOut]:
    """Files that hold other rows of one survey: whose are true is not for a pack to say."""
    holders: dict[str, list[str]] = defaultdict(list)
    for one in files:
        for held in one.surveys:
            holders[held.survey].append(one.file.path)
    doubled = {survey: paths for survey, paths in holders.items() if len(paths) > 1}
    said = {path: digests(path) for path in {p for paths in doubled.values() for p in paths}}
    flaws: dict[str, LeftOut] = {}
    for survey, paths in sorted(doubled.items()):
        if len({said[path][survey] for path in paths}) > 1:
            names = ", ".join(inert(Path(path).name) for path in paths)
            why = f"a survey has other rows in {names}; delete the wrong one"
            for path in paths:
                flaws[path] = LeftOut(inert(path), survey, Reason.TWICE, why)
    return list(flaws.values())


@dataclass(frozen=True)
class Source:
    """A file, and which of its surveys are taken from it."""

    path: str
    surveys: list[str]
    all: bool


def _each_once(files: list[FileContents]) -> tuple[int, list[Source]]:
    """Each survey from one file, though it may stand in several."""
    seen: set[str] = set()
    sources = []
    for one in files:
        new = [survey.survey for survey in one.surveys if survey.survey not in seen]
        seen.update(new)
        if new:
            sources.append(Source(one.file.path, new, len(new) == len(one.surveys)))
    return len(seen), sources


def unite(sources: list[Source], target: Path, extras: list[pa.Field]) -> int:
    """All rows of the sources in one file: what is about machines first, then contents."""
    rows = sum(pq.read_metadata(source.path).num_rows for source in sources)
    writer = RangeWriter(rows, extras)
    with tempfile.TemporaryDirectory(prefix=".pack-", dir=target.parent) as folder:
        writer.open(Path(folder))
        for source in sources:
            for table in _tables(source, writer.schema):
                writer.add(table)
        return writer.write(target, _narrowest(sources))


def _narrowest(sources: list[Source]) -> int:
    """Who may read one of the sources, and not another, may not read the pack."""
    mode = 0o666
    for source in sources:
        mode &= os.stat(source.path).st_mode
    return mode | 0o400


def _tables(source: Source, schema: pa.Schema) -> Iterator[pa.Table]:
    with pq.ParquetFile(source.path) as file:
        names = [name for name in schema.names if name in file.schema_arrow.names]
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=names, use_threads=False)
            if not source.all:
                wanted = pa.array(source.surveys)
                table = table.filter(pc.is_in(table["survey"], wanted))
            yield complete(table, schema)


class RangeWriter:
    """Sorts more contents than memory holds: by ranges of hashes, each in its own file."""

    def __init__(self, rows: int, extras: Sequence[pa.Field] = ()) -> None:
        self.schema = pa.schema([*ARROW, *extras])
        self._content_columns = [*_CONTENT_COLUMNS, *(field.name for field in extras)]
        self._ranges = max(1, min(RANGES_MAX, rows // RANGE_ROWS))
        self._facts: list[pa.Table] = []
        self._stack = ExitStack()
        self._writers: list[pa.ipc.RecordBatchFileWriter] = []
        self._paths: list[Path] = []
        self._rows = [0] * self._ranges

    def open(self, folder: Path) -> None:
        """Makes the ranges' files."""
        schema = pa.schema([self.schema.field(name) for name in self._content_columns])
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        for at in range(self._ranges):
            path = folder / f"{at}.arrow"
            self._paths.append(path)
            writer = pa.ipc.new_file(str(path), schema, options=options)
            self._writers.append(self._stack.enter_context(writer))

    def add(self, table: pa.Table) -> None:
        """Rows of any kind."""
        content = pc.equal(table["record"], CONTENT)
        facts = table.filter(pc.invert(content))
        if len(facts):
            self._facts.append(facts)
        contents = table.filter(content).select(self._content_columns)
        if len(contents) == 0:
            return
        if self._ranges == 1:
            self._writers[0].write_table(contents)
            self._rows[0] += len(contents)
            return
        ranges = self._range_of(contents["hash_high"])
        for at in np.unique(ranges):
            own = contents.filter(pa.array(ranges == at))
            self._writers[at].write_table(own)
            self._rows[at] += len(own)

    def _range_of(self, hashes: pa.ChunkedArray) -> np.ndarray:
        """Small sketches crowd at small hashes, so ranges are by the square root."""
        share = (hashes.to_numpy().astype(np.float64) - HASH_MIN) / 2.0**64
        found = (np.sqrt(np.clip(share, 0.0, 1.0)) * self._ranges).astype(np.int64)
        return np.minimum(found, self._ranges - 1)

    def write(self, target: Path, mode: int | None = None) -> int:
        """The whole file; how many rows it has."""
        self._stack.close()
        with whole_file(target, self.schema, mode) as writer:
            rows = 0
            for table in self._in_order():
                writer.write_table(table, row_group_size=GROUP_ROWS)
                rows += len(table)
        return rows

    def _in_order(self) -> Iterator[pa.Table]:
        facts = pa.concat_tables(self._facts)
        for record in (MACHINE, LABEL, OWNER, SIZE):
            rows = facts.filter(pc.equal(facts["record"], record))
            if len(rows):
                yield rows
        order = [("hash_high", "ascending"), ("hash_low", "ascending")]
        ties = [("survey", "ascending"), ("owner", "ascending")]
        for path, rows in zip(self._paths, self._rows, strict=True):
            for table in _parts(path, rows):
                yield from _pieces(table.sort_by([*order, *ties]), self.schema)
            os.unlink(path)


def _parts(path: Path, rows: int) -> Iterator[pa.Table]:
    """The contents of a range; of one that took far more than its share a part at a time.

    Where hashes crowd depends on how many contents owners have, so ranges are of unlike sizes.
    """
    if 2 * rows <= 3 * RANGE_ROWS:
        with pa.OSFile(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        if len(table):
            yield table
        return
    with pa.OSFile(str(path)) as source:
        fields = pa.ipc.open_file(source).schema.names
        only = pa.ipc.IpcReadOptions(included_fields=[fields.index("hash_high")])
        hashes = pa.ipc.open_file(source, options=only).read_all()["hash_high"].to_numpy()
    cuts = np.unique(np.sort(hashes)[RANGE_ROWS::RANGE_ROWS])
    del hashes
    for least, beyond in zip([None, *cuts.tolist()], [*cuts.tolist(), None], strict=True):
        with pa.OSFile(str(path)) as source:
            file = pa.ipc.open_file(source)
            batches = (file.get_batch(at) for at in range(file.num_record_batches))
            kept = [_between(batch, least, beyond) for batch in batches]
        table = pa.Table.from_batches([batch for batch in kept if len(batch)], kept[0].schema)
        if len(table):
            yield table


def _between(batch: pa.RecordBatch, least: int | None, beyond: int | None) -> pa.RecordBatch:
    """Rows with hashes from `least` on and below `beyond`."""
    hashes = batch.column("hash_high").to_numpy()
    kept = np.ones(len(hashes), bool)
    if least is not None:
        kept &= hashes >= least
    if beyond is not None:
        kept &= hashes < beyond
    return batch.filter(pa.array(kept))


def _pieces(table: pa.Table, schema: pa.Schema) -> Iterable[pa.Table]:
    """Completed by pieces: most columns of contents are NULL."""
    step = 4 * GROUP_ROWS
    for start in range(0, len(table), step):
        yield complete(table.slice(start, step), schema)
