# SPDX-License-Identifier: GPL-2.0-or-later
"""Few files of many: the surveys of a day in files that are sorted by hash.

A report then opens few files, and reads of each only what is below its bounds. Invariants:
- Memory depends on `ROWS_MAX`, and not on how many files there are.
- Large files are never written anew, so each run costs what came since the last one.
- A survey is in a file at any moment: a united file gets its name when all of it is on the
  disk, and only then those go that it was made of. Where that was cut short, the next run
  finds the same surveys twice, and removes what is left.
- What cannot be read, and what has columns that this version does not know, stays as it is.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zmeld_fleet import schema
from zmeld_fleet.catalogue import READERS, Contents, LeftOut, facts_of, look
from zmeld_fleet.places import Place, StoredFile
from zmeld_fleet.validity import Reason
from zmeld_fleet.words import FleetError, inert
from zmeld_fleet.writing import MAGIC, TEXTS, digest_of, written_whole

ROWS_MAX = 4_000_000
"""Rows of a united file, about: what is sorted in memory."""
GROUP_ROWS = 1 << 16
"""So that a bound leaves most of a file unread."""
FEW = 64
"""Tables that are joined at a time."""
LARGE = 0.5
"""A united file with so much of `ROWS_MAX` is not united again."""

CONTENT = ["owner", "hash_high", "hash_low", "count", "object_class"]


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
    done = United(files_before=len(stored))
    done.kept = [
        LeftOut(inert(path), None, Reason.UNREADABLE, inert(why)) for path, why in refused.items()
    ]
    made = removed = 0
    for date in sorted({file.date for file in stored}):
        files = [file for file in stored if file.date == date]
        with _alone(Path(files[0].path).parent):
            for new, gone in _day(files, done):
                made, removed = made + new, removed + gone
    done.files_after = done.files_before + made - removed
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


def _rows(file: StoredFile) -> int:
    """Of a file that may be anything; each takes more than a byte."""
    with suppress(Exception):
        return pq.read_metadata(file.path).num_rows
    return 0


def _day(files: list[StoredFile], done: United) -> Iterator[tuple[int, int]]:
    """Files made and removed, one united file after the other."""
    there: set[str] = set()
    small = []
    for file in files:
        if file.size < LARGE * ROWS_MAX or _rows(file) < LARGE * ROWS_MAX:
            small.append(file)
        elif isinstance(found := look(file), Contents):
            there |= {survey.survey for survey in found.surveys}
    batch: list[StoredFile] = []
    rows = 0
    # The largest first: what is left of a run that was cut short is in one already.
    small.sort(key=lambda file: (-file.size, file.path))
    with ThreadPoolExecutor(READERS) as readers:
        for file, (surveys, own) in zip(small, readers.map(_acceptable, small), strict=True):
            if isinstance(surveys, LeftOut):
                done.kept.append(surveys)
            elif set(surveys) <= there:
                os.unlink(file.path)
                yield 0, 1
            elif there & set(surveys):
                why = "some of its surveys are in another file"
                done.kept.append(LeftOut(inert(file.path), None, Reason.TWICE, why))
            else:
                there |= set(surveys)
                if batch and rows + own > ROWS_MAX:
                    yield _written(batch, done)
                    batch, rows = [], 0
                batch, rows = [*batch, file], rows + own
    if len(batch) > 1:
        yield _written(batch, done)


def _acceptable(file: StoredFile) -> tuple[list[str] | LeftOut, int]:
    """The surveys of a file that can be united, and its rows."""
    found = look(file)
    if isinstance(found, LeftOut):
        return found, 0
    metadata = pq.read_metadata(file.path)
    unknown = set(metadata.schema.to_arrow_schema().names) - set(schema.COLUMNS)
    if unknown:
        why = f"it has columns of a newer zmeld: {', '.join(sorted(unknown)[:5])}"
        return LeftOut(inert(file.path), None, Reason.COLUMNS, inert(why)), 0
    return [survey.survey for survey in found.surveys], metadata.num_rows


class _Texts:
    """Numbers for texts, the same in all files."""

    def __init__(self) -> None:
        self.known: dict[str | None, int] = {}

    def numbers(self, column: pa.ChunkedArray) -> np.ndarray:
        """Of each row its text's number."""
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        own = [
            self.known.setdefault(one, len(self.known)) for one in encoded.dictionary.to_pylist()
        ]
        return np.array(own, np.int32)[encoded.indices.to_numpy()]

    @property
    def texts(self) -> pa.Array:
        """The texts, by their numbers."""
        return pa.array(list(self.known), pa.string())


def _written(files: list[StoredFile], done: United) -> tuple[int, int]:
    """One file in the place of these, which has the narrowest of their modes."""
    ids, owners = _Texts(), _Texts()
    facts: list[pa.Table] = []
    parts: list[list[np.ndarray]] = []
    mode = 0o666
    for file in files:
        with open(file.path, "rb") as opened:
            mode &= os.fstat(opened.fileno()).st_mode
            parquet = pq.ParquetFile(opened)
            facts.append(facts_of(parquet))
            if len(facts) == FEW:
                # Of very many small pieces each takes more than what is in it.
                facts = [pa.concat_tables(facts).combine_chunks()]
            names = ["record", "survey", *CONTENT]
            contents = parquet.read(columns=names, use_threads=False)
        contents = contents.filter(pc.equal(contents["record"], schema.CONTENT))
        numbers = [ids.numbers(contents["survey"]), owners.numbers(contents["owner"])]
        parts.append(numbers + [contents[name].to_numpy() for name in CONTENT[1:]])
    columns = [np.concatenate([part.pop(0) for part in parts]) for _ in range(1 + len(CONTENT))]
    about = pa.concat_tables(facts)
    write(Path(files[0].path).parent, about, ids.texts, owners.texts, columns, mode)
    for old in files:
        os.unlink(old.path)
    done.surveys += pc.sum(pc.equal(about["record"], schema.MACHINE)).as_py()
    return 1, len(files)


def write(
    folder: Path,
    about: pa.Table,
    surveys: pa.Array,
    owners: pa.Array,
    columns: list[np.ndarray],
    mode: int,
) -> None:
    """A united file: rows that are not about contents, and contents by number of survey and
    owner, hash, count and class."""
    machines = about.filter(pc.equal(about["record"], schema.MACHINE))
    at = pc.index_in(surveys, machines["survey"].combine_chunks())
    told = {"survey": surveys}
    told |= {name: machines[name].take(at).combine_chunks() for name in ("machine", "time")}
    survey, owner, *rest = columns
    order = np.lexsort((rest[1], rest[0]))
    path = folder / f"united-{secrets.token_hex(8)}.parquet"
    settings = {"compression": "zstd", "use_dictionary": TEXTS, "store_schema": False}
    with written_whole(path, mode) as made:
        writer = pq.ParquetWriter(made, schema.ARROW, **settings)
        writer.write_table(about, row_group_size=GROUP_ROWS)
        for start in range(0, len(order), GROUP_ROWS):
            some = order[start : start + GROUP_ROWS]
            of = pa.array(survey[some])
            values = {name: own.take(of) for name, own in told.items()}
            values["owner"] = owners.take(pa.array(owner[some]))
            values |= {n: own[some] for n, own in zip(CONTENT[1:], rest, strict=True)}
            writer.write_table(_content_table(values, len(some)))
        made.flush()
        with open(made.name, "rb") as written:
            length = os.fstat(written.fileno()).st_size - len(MAGIC)
            said = f"{digest_of(written, length):08x} {length}"
        writer.add_key_value_metadata({schema.DIGEST.decode(): said})
        writer.close()


def _content_table(values: dict[str, Any], length: int) -> pa.Table:
    constant = {"schema": schema.SCHEMA, "record": schema.CONTENT}
    columns = []
    for name, kind in schema.COLUMNS.items():
        if name in constant:
            columns.append(pa.repeat(pa.scalar(constant[name], kind), length))
        elif name in values:
            columns.append(pa.array(values[name], kind))
        else:
            columns.append(pa.nulls(length, kind))
    return pa.table(columns, schema=schema.ARROW)
