# SPDX-License-Identifier: GPL-2.0-or-later
"""Files whole under their name, or not there; and the digest of a survey's file."""

from __future__ import annotations

import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from zmeld_fleet.schema import COLUMNS
from zmeld_fleet.words import FleetError

MAGIC = b"PAR1"
DIGEST_BYTES = 1 << 20

TEXTS = [name for name, kind in COLUMNS.items() if pa.types.is_string(kind)]


def digest_of(file: BinaryIO, length: int) -> int:
    """The digest of so many bytes behind the first four of a file."""
    digest, left = 0, length
    file.seek(len(MAGIC))
    while left > 0 and (data := file.read(min(DIGEST_BYTES, left))):
        digest, left = zlib.crc32(data, digest), left - len(data)
    file.seek(0)
    return digest


@contextmanager
def written_whole(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file that gets its name when all of it is on the disk; no other's link is followed."""
    part = path.with_name(f".{path.name}.part-{secrets.token_hex(8)}")
    try:
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.rename(part, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(part)
        if isinstance(error, OSError):
            said = error.strerror or error
            raise FleetError(f"{path}: cannot be written: {said}") from error
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_whole(path: Path, data: bytes) -> None:
    """The same with these bytes."""
    with written_whole(path) as file:
        file.write(data)
