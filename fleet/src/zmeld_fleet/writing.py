# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of surveys as docs/survey.md has them: whole under their name, or not there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from zmeld_fleet.schema import ARROW, COLUMNS

GROUP_ROWS = 64 * 1024
"""Rows of a row group of contents: few enough that a bound leaves most of them unread."""

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
            with pq.ParquetWriter(
                file, schema, compression="zstd", use_dictionary=_TEXTS, store_schema=False
            ) as writer:
                yield writer
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
