# SPDX-License-Identifier: GPL-2.0-or-later
"""Few files of many: the surveys of a day in files that are sorted by hash.

A report then opens few files, and reads of each only what is below its bounds. Invariants:
- Each file is read once, and memory depends on `ROWS_MAX` and not on how many files there are.
- Large files are never written anew, so each run costs what came since the last one.
- A survey is in a file at any moment: a united file gets its name when all of it is on the
  disk, and only then those go that it was made of. Where that was cut short, the next run
  finds the same surveys twice, with the same facts, and removes what is left.
- What cannot be read, and what has columns that this version does not know, stays as it is.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zmeld_fleet import schema
from zmeld_fleet.catalogue import Contents, LeftOut, Opened, look
from zmeld_fleet.places import Place, StoredFile
from zmeld_fleet.validity import Reason
from zmeld_fleet.words import FleetError, inert
from zmeld_fleet.writing import MAGIC, TEXTS, digest_of, written_whole

ROWS_MAX = 4_000_000
"""Rows of a united file, about: what is sorted in memory."""
GROUP_ROWS = 1 << 16
"""So that a bound leaves most of a file unread."""
LARGE = 0.5
"""A united file with so much of `ROWS_MAX` is not united again."""

CONTENT = ["survey", "owner", "hash_high", "hash_low", "count", "object_class"]


@dataclass
class United:
    """What was done."""

    files_before: int = 0
    files_after: int = 0
    surveys: int = 0
    kept: list[LeftOut] = field(default_factory=list)
    """What stays as it is, and why."""


def unite(place: Place) -> United:
    """Unites the files of each day."""
    stored, refused = place.listed()
    done = United(files_before=len(stored), files_after=len(stored))
    done.kept = [
        LeftOut(inert(path), None, Reason.UNREADABLE, inert(why)) for path, why in refused.items()
    ]
    days: dict[str, list[StoredFile]] = defaultdict(list)
    for file in stored:
        days[file.date].append(file)
    for files in days.values():
        with _alone(Path(files[0].path).parent):
            _day(files, done)
    return done


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two at a time would unite the same files twice."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise FleetError(f"{inert(folder)}: another zmeld-fleet unites its files") from error
    finally:
        os.close(opened)


def _is_large(file: StoredFile) -> bool:
    """Of a file that may be anything; each row takes more than a byte."""
    with suppress(Exception):
        least = LARGE * ROWS_MAX
        return file.size >= least and pq.read_metadata(file.path).num_rows >= least
    return False


def _day(files: list[StoredFile], done: United) -> None:
    large = {file.path for file in files if _is_large(file)}
    there: dict[str, StoredFile] = {}
    for found in look([file for file in files if file.path in large]):
        if isinstance(found, Contents):
            there |= {survey.survey: survey.file for survey in found.surveys}
    facts_of = lru_cache(1)(_facts_of)
    # The largest first: what is left of a run that was cut short is in one already.
    small = [file for file in files if file.path not in large]
    small.sort(key=lambda file: (-file.size, file.path))
    batch: list[Opened] = []
    for found in look(small, CONTENT):
        if isinstance(found, LeftOut):
            done.kept.append(found)
            continue
        own: dict[str, set[str]] = defaultdict(set)
        for survey in found.surveys:
            own[survey.file.path].add(survey.survey)
        for file in found.files:
            surveys = own[file.stored.path]
            holders = {there[survey] for survey in surveys & there.keys()}
            if why := _stays(file, holders, surveys <= there.keys(), facts_of):
                done.kept.append(LeftOut(inert(file.stored.path), None, *why))
            elif holders:
                _remove([file], done)
            else:
                if batch and sum(one.rows for one in batch) + file.rows > ROWS_MAX:
                    made = _united(batch, done)
                    old = {one.stored.path for one in batch}
                    there = {one: made if at.path in old else at for one, at in there.items()}
                    batch = []
                batch.append(file)
                there |= dict.fromkeys(surveys, file.stored)
    if len(batch) > 1:
        _united(batch, done)


def _facts_of(file: StoredFile) -> pa.Table:
    facts = [
        one.facts for found in look([file]) if isinstance(found, Contents) for one in found.files
    ]
    return pa.concat_tables([schema.ARROW.empty_table(), *facts])


def _stays(
    file: Opened,
    holders: set[StoredFile],
    is_held: bool,
    facts_of: Callable[[StoredFile], pa.Table],
) -> tuple[Reason, str] | None:
    """Who writes a known id to another file must not have the survey of that id deleted."""
    if file.strange:
        names = ", ".join(file.strange[:5])
        return Reason.COLUMNS, inert(f"it has columns of a newer zmeld: {names}")
    if not holders:
        return None
    if not is_held:
        return Reason.TWICE, "some of its surveys are in another file"
    held = pa.concat_tables([facts_of(one) for one in holders])
    held = held.filter(pc.is_in(held["survey"], pc.unique(file.facts["survey"])))
    if file.facts.sort_by("survey").equals(held.sort_by("survey")):
        return None
    return Reason.TWICE, "another file has a survey of the same id, and other facts"


def _remove(files: list[Opened], done: United) -> None:
    for file in files:
        os.unlink(file.stored.path)
    done.files_after -= len(files)


def _united(files: list[Opened], done: United) -> StoredFile:
    """One file in the place of these, which has the narrowest of their modes."""
    mode = 0o666
    for file in files:
        mode &= file.stored.mode
    facts = pa.concat_tables([file.facts for file in files]).combine_chunks()
    contents = pa.concat_tables([file.contents for file in files])
    path = write(Path(files[0].stored.path).parent, facts, contents, mode)
    done.files_after += 1
    _remove(files, done)
    done.surveys += pc.sum(pc.equal(facts["record"], schema.MACHINE)).as_py()
    size = path.stat().st_size
    return replace(files[0].stored, path=str(path), name=path.name, size=size, mode=mode)


def write(folder: Path, facts: pa.Table, contents: pa.Table, mode: int) -> Path:
    """A united file: rows that are not about contents, and the columns `CONTENT` of the others,
    whose texts are dictionaries."""
    contents = contents.unify_dictionaries().combine_chunks()
    machines = facts.filter(pc.equal(facts["record"], schema.MACHINE))
    surveys = contents["survey"].chunk(0) if len(contents) else pa.nulls(0).dictionary_encode()
    at = pc.index_in(surveys.dictionary, machines["survey"].combine_chunks())
    for name in ("machine", "time"):
        values = machines[name].combine_chunks().take(at)
        told = pa.DictionaryArray.from_arrays(surveys.indices, values)
        contents = contents.append_column(name, told)
    order = pc.sort_indices(contents, [("hash_high", "ascending"), ("hash_low", "ascending")])
    path = folder / f"united-{secrets.token_hex(8)}.parquet"
    settings = {"compression": "zstd", "use_dictionary": TEXTS, "store_schema": False}
    with written_whole(path, mode) as made:
        writer = pq.ParquetWriter(made, schema.ARROW, **settings)
        writer.write_table(facts, row_group_size=GROUP_ROWS)
        for start in range(0, len(order), GROUP_ROWS):
            writer.write_table(whole_rows(contents.take(order[start : start + GROUP_ROWS])))
        made.flush()
        with open(made.name, "rb") as written:
            length = os.fstat(written.fileno()).st_size - len(MAGIC)
            said = f"{digest_of(written, length):08x} {length}"
        writer.add_key_value_metadata({schema.DIGEST.decode(): said})
        writer.close()
    return path


def whole_rows(contents: pa.Table) -> pa.Table:
    """Rows about contents in the columns of the format."""
    constant = {"schema": schema.SCHEMA, "record": schema.CONTENT}
    columns = [
        contents[name].cast(kind)
        if name in contents.column_names
        else pa.repeat(pa.scalar(constant.get(name), kind), len(contents))
        for name, kind in schema.COLUMNS.items()
    ]
    return pa.table(columns, schema=schema.ARROW)
