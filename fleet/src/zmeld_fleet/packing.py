# SPDX-License-Identifier: GPL-2.0-or-later
"""`pack`: a day's many small files become one, sorted by hash.

Invariants:
- Memory is bounded: DuckDB sorts, and writes to disk what it cannot hold.
- The pack is whole, on the disk and under its name before an original is deleted. After
  a kill at any moment every survey is still there, once or twice; twice counts once.
- Where two files have other rows of one survey, neither is touched.
- A file is read to its end before it is taken, and the pack is looked at as a report would
  before an original is deleted.
- A file with columns that this package does not know is left alone.
- Nobody may read a pack who might not read each of its surveys; no link is followed.
- What a report would not read as a file (truncated, another version) is left alone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from zmeld_fleet import catalogue, schema
from zmeld_fleet.catalogue import FileContents, LeftOut, first_day, look, unlisted, verify
from zmeld_fleet.places import Place, PlaceError, StoredFile
from zmeld_fleet.validity import Reason
from zmeld_fleet.words import inert, listed
from zmeld_fleet.writing import GROUP_ROWS, complete, sync_folder, whole_file

FILE = "zmeld_file"
"""A column of the rows' files while they are united."""
_FULL = os.strerror(errno.ENOSPC)
_CONTENT_COLUMNS = (
    *("schema", "record", "machine", "survey", "time", "owner"),
    *schema.CONTENT_COLUMNS,
)


@dataclass(frozen=True)
class Packed:
    """A day that was packed."""

    date: str
    path: Path
    files: int
    surveys: int


def pack(place: Place) -> tuple[list[Packed], list[LeftOut]]:
    """Packs every day that has several files."""
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
            try:
                done, flaws = _pack_day(place, date, files)
            except (duckdb.Error, pa.ArrowException) as error:
                if isinstance(error, duckdb.IOException) and _FULL in str(error):
                    raise
                why = f"its files cannot be united, and stay as they are: {inert(error)}"
                folder = inert(Path(files[0].path).parent)
                done, flaws = [], [LeftOut(folder, None, Reason.DAMAGED, why)]
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
        for stored in place.listed()[0]:
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
    folder = Path(place.root) / schema.FOLDER
    if not folder.is_dir():
        place.listed()  # It says what is missing.
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
    place: Place, date: str, stored: list[StoredFile]
) -> tuple[list[Packed], list[LeftOut]]:
    links = [one for one in stored if os.path.islink(one.path)]
    looked = [look(place, file) for file in stored if file not in links]
    # A file that is broken would take the whole pack along.
    looked = [
        one if isinstance(one, LeftOut) else _with_more(one) or verify(place, one.file) or one
        for one in looked
    ]
    left = [one for one in looked if isinstance(one, LeftOut)]
    why = "it is a link, and pack would copy what it leads to"
    left += [LeftOut(inert(one.path), None, Reason.NAME, why) for one in links]
    whole = [one for one in looked if isinstance(one, FileContents)]
    if len(whole) < 2:
        return [], left
    folder = Path(whole[0].file.path).parent
    with place.on_disk([one.file.path for one in whole]) as there:
        paths = {one.file.path: path for one, path in zip(whole, there, strict=True)}
        strangers = _contradictions(whole, paths, folder)
        left += strangers
        apart = {flaw.file for flaw in strangers}
        whole = [one for one in whole if inert(one.file.path) not in apart]
        if len(whole) < 2:
            return [], left
        target = folder / f"{schema.PACKED_PREFIX}{secrets.token_hex(8)}.parquet"
        sources = {held.survey: paths[one.file.path] for one in whole for held in one.surveys}
        unite(sources.items(), target)
    flaw = _unsound(place, target, len(sources))
    if flaw is not None:
        os.unlink(target)
        return [], [*left, flaw]
    for one in whole:
        os.unlink(one.file.path)
    sync_folder(folder)
    return [Packed(date, target, len(whole), len(sources))], left


def _unsound(place: Place, target: Path, surveys: int) -> LeftOut | None:
    """Why a pack would not count, for which its originals are kept."""
    day, size = target.parent.name.removeprefix("date="), target.stat().st_size
    looked = look(place, StoredFile(str(target), target.name, day, size, None))
    folder = inert(target.parent)
    if isinstance(looked, LeftOut):
        why = f"its files would not count as a pack, and stay as they are: {looked.why}"
        return LeftOut(folder, None, looked.reason, why)
    if len(looked.surveys) != surveys:
        why = f"a pack would have {len(looked.surveys)} surveys, and not {surveys}"
        return LeftOut(folder, None, Reason.ROWS, why)
    return None


def _with_more(contents: FileContents) -> LeftOut | None:
    """Why a file is not packed whose other columns a pack would lose."""
    if not contents.extras:
        return None
    why = f"a pack would not have its {listed(contents.extras, 5)}, and it stays as it is"
    return LeftOut(inert(contents.file.path), None, Reason.COLUMNS, why)


def _contradictions(
    files: list[FileContents], paths: dict[str, str], folder: Path
) -> list[LeftOut]:
    """Files that hold other rows of one survey: whose are true is not for a pack to say.

    Rows are added up as numbers that depend on a secret of this call, so their order does not
    matter and nobody can write other rows that come to the same.
    """
    holders: dict[str, list[str]] = defaultdict(list)
    for one in files:
        for held in one.surveys:
            holders[held.survey].append(one.file.path)
    doubled = {survey: found for survey, found in holders.items() if len(found) > 1}
    if not doubled:
        return []
    asked = [(survey, paths[path]) for survey, found in doubled.items() for path in found]
    with _chosen(asked, folder) as rows:
        row = f"to_json(struct_pack({_quoted(schema.COLUMNS)}))"
        said = f"sum(md5_number_lower('{secrets.token_hex(32)}' || {row})) AS said"
        each = rows.aggregate(f"survey, {FILE}, {said}")
        unlike = each.aggregate("survey, count(DISTINCT said) AS tellings").filter("tellings > 1")
        contradicted = sorted(survey for survey, _ in unlike.fetchall())
    flaws: dict[str, LeftOut] = {}
    for survey in contradicted:
        names = [inert(Path(path).name) for path in doubled[survey]]
        why = f"a survey has other rows in {', '.join(names)}; delete the wrong one"
        for path in doubled[survey]:
            flaws[path] = LeftOut(inert(path), survey, Reason.TWICE, why)
    return list(flaws.values())


def unite(sources: Iterable[tuple[str, str]], target: Path) -> None:
    """The rows of surveys, each from a file, in one: about machines first, then contents."""
    sources = list(sources)
    with (
        _chosen(sources, target.parent) as chosen,
        whole_file(target, _narrowest(path for _, path in sources)) as writer,
    ):
        for record in schema.RECORDS:
            names = _CONTENT_COLUMNS if record == schema.CONTENT else schema.COLUMNS
            own = chosen.filter(f"record = '{record}'").project(_quoted(names))
            for batch in own.order("hash_high, hash_low, survey, owner").to_arrow_reader(
                GROUP_ROWS
            ):
                writer.write_table(complete(pa.Table.from_batches([batch])))


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


@contextmanager
def _chosen(sources: Iterable[tuple[str, str]], folder: Path) -> Iterator[duckdb.DuckDBPyRelation]:
    """The rows of surveys, each from a file; what memory does not hold goes into `folder`."""
    surveys, paths = zip(*sources, strict=True)
    with (
        tempfile.TemporaryDirectory(prefix=".pack-", dir=folder) as scratch,
        catalogue.duck(threads=2, temp_directory=scratch) as engine,
    ):
        engine.register("wanted", pa.table({"survey": surveys, FILE: paths}))
        read = f"read_parquet($paths, filename = '{FILE}', union_by_name = true"
        asked = f"FROM {read}, hive_partitioning = false) SEMI JOIN wanted USING (survey, {FILE})"
        yield engine.sql(asked, params={"paths": sorted(set(paths))})


def _narrowest(paths: Iterable[str]) -> int:
    """Who may read one of the files, and not another, may not read the pack."""
    mode = 0o666
    for path in set(paths):
        mode &= os.stat(path).st_mode
    return mode | 0o400
