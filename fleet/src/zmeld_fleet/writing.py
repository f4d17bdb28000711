# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of surveys as docs/survey.md has them: whole under their name, or not there."""

from __future__ import annotations

import io
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

_TEXTS = [name for name, kind in COLUMNS.items() if pa.types.is_string(kind)]


def complete(table: pa.Table, schema: pa.Schema = ARROW) -> pa.Table:
    """The table with all columns of the format, NULL where it has none."""
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


class _Summed(io.RawIOBase):
    """A file that is being written, with the digest of all but its first four bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._written = 0
        self.digest = 0

    def writable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """How much was written."""
        return self._written

    def write(self, data: Any) -> int:
        """Writes all of it."""
        view = memoryview(data).cast("B")
        skipped = max(len(MAGIC) - self._written, 0)
        self.digest = zlib.crc32(view[skipped:], self.digest)
        self._written += len(view)
        self._file.write(view)
        return len(view)


def digest_of(file: pa.NativeFile, length: int) -> int:
    """The digest of so many bytes behind the first four of a file."""
    digest, at, end = 0, len(MAGIC), min(len(MAGIC) + length, file.size())
    while at < end:
        data = file.read_at(min(DIGEST_BYTES, end - at), at)
        digest, at = zlib.crc32(data, digest), at + len(data)
    return digest


@contextmanager
def whole_file(
    target: Path, schema: pa.Schema = ARROW, mode: int | None = None
) -> Iterator[pq.ParquetWriter]:
    """A writer whose file gets its name when all of it is on the disk.

    With `mode` nobody beyond it may read the file at any moment.
    """
    part = target.with_name(f".{target.name}.part-{secrets.token_hex(4)}")
    try:
        rights = 0o666 if mode is None else 0o600
        with open(part, "xb", opener=lambda path, flags: os.open(path, flags, rights)) as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            summed = _Summed(file)
            with pq.ParquetWriter(
                summed, schema, compression="zstd", use_dictionary=_TEXTS, store_schema=False
            ) as writer:
                yield writer
                said = f"{summed.digest:08x} {summed.tell() - len(MAGIC)}"
                writer.add_key_value_metadata({DIGEST.decode(): said})
            file.flush()
            os.fsync(file.fileno())
        os.rename(part, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part)
        raise
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Brings a folder's names to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
