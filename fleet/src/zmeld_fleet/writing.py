# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of surveys as docs/survey.md has them: whole under their name, or not there."""

from __future__ import annotations

import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from zmeld_fleet.schema import ARROW, COLUMNS, DIGEST

GROUP_ROWS = 64 * 1024
"""Rows of a row group of contents: few enough that a bound leaves most of them unread."""

MAGIC = b"PAR1"
DIGEST_BYTES = 1 << 20

TEXTS = [name for name, kind in COLUMNS.items() if pa.types.is_string(kind)]


def complete(table: pa.Table) -> pa.Table:
    """The table with all columns of the format, NULL where it has none."""
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in ARROW
    ]
    return pa.table(columns, schema=ARROW)


def digest_of(file: pa.NativeFile, length: int) -> int:
    """The digest of so many bytes behind the first four of a file."""
    digest, at, end = 0, len(MAGIC), min(len(MAGIC) + length, file.size())
    while at < end:
        data = file.read_at(min(DIGEST_BYTES, end - at), at)
        digest, at = zlib.crc32(data, digest), at + len(data)
    return digest


@contextmanager
def _whole(target: Path, mode: int | None) -> Iterator[BinaryIO]:
    """A file that gets its name when all of it is on the disk; no other user's link is followed.

    With `mode` nobody beyond it may read the file at any moment.
    """
    part = target.with_name(f".{target.name}.part-{secrets.token_hex(8)}")
    try:
        rights = 0o666 if mode is None else 0o600
        with open(part, "x+b", opener=lambda path, flags: os.open(path, flags, rights)) as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.rename(part, target)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(target)
        with suppress(FileNotFoundError):
            os.unlink(part)
        raise
    sync_folder(target.parent)


@contextmanager
def whole_file(target: Path, mode: int | None = None) -> Iterator[pq.ParquetWriter]:
    """A writer of a file with a digest."""
    settings: dict[str, Any] = {"compression": "zstd", "use_dictionary": TEXTS}
    with (
        _whole(target, mode) as file,
        pq.ParquetWriter(file, ARROW, **settings, store_schema=False) as writer,
    ):
        yield writer
        file.flush()
        with pa.OSFile(file.name) as written:
            length = written.size() - len(MAGIC)
            said = f"{digest_of(written, length):08x} {length}"
        writer.add_key_value_metadata({DIGEST.decode(): said})


def write_whole(path: Path, data: bytes) -> None:
    """A file, whole or not at all."""
    with _whole(path, None) as file:
        file.write(data)


def sync_folder(folder: Path) -> None:
    """Brings a folder's names to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
