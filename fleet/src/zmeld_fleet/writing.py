# SPDX-License-Identifier: GPL-2.0-or-later
"""Files whole under their name, or not there; and the digest of a survey's file."""

from __future__ import annotations

import os
import secrets
import zlib
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from zmeld_fleet.schema import COLUMNS

MAGIC = b"PAR1"
DIGEST_BYTES = 1 << 20

TEXTS = [name for name, kind in COLUMNS.items() if pa.types.is_string(kind)]


def digest_of(file: pa.NativeFile, length: int) -> int:
    """The digest of so many bytes behind the first four of a file."""
    digest, at, end = 0, len(MAGIC), min(len(MAGIC) + length, file.size())
    while at < end:
        data = file.read_at(min(DIGEST_BYTES, end - at), at)
        digest, at = zlib.crc32(data, digest), at + len(data)
    return digest


def write_whole(path: Path, data: bytes) -> None:
    """A file gets its name when all of it is on the disk; no other user's link is followed."""
    part = path.with_name(f".{path.name}.part-{secrets.token_hex(8)}")
    try:
        with open(part, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(part, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        with suppress(FileNotFoundError):
            os.unlink(part)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
